"""cohere_command4: ``<|START_ACTION|>[{"tool_name": ..., "parameters": {...}}, ...]<|END_ACTION|>``."""

from __future__ import annotations

from sglang.parsers.source import Reader, Source, ignore, space, until
from sglang.parsers.tools.json_calls import json_call_array
from sglang.parsers.tools.writer import CallWriter

BEGIN = "<|START_ACTION|>"
END = "<|END_ACTION|>"


def read(src: Source, out: CallWriter) -> Reader[None]:
    emit = out.text
    while (yield from until(src, (BEGIN,), emit)) is not None:
        emit = ignore
        out.block()
        yield from space(src)
        yield from json_call_array(src, out)
