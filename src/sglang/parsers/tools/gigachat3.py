"""gigachat3, gigachat35: ``<｜GCML｜tool_calls><｜GCML｜invoke name="N"><｜GCML｜parameter name="P">value...``."""

from __future__ import annotations

from sglang.parsers.source import Reader, Source
from sglang.parsers.tools.deepseekv32 import tags
from sglang.parsers.tools.invoke import invoke_calls
from sglang.parsers.tools.writer import CallWriter

TAGS = tags("｜GCML｜")


def read(src: Source, out: CallWriter) -> Reader[None]:
    yield from invoke_calls(src, out, TAGS)
