"""step3: ``<steptml:invoke name="N"><steptml:parameter name="P">value</steptml:parameter></steptml:invoke>`` inside
two pairs of special tokens."""

from __future__ import annotations

from sglang.parsers.source import Reader, Source
from sglang.parsers.tools.invoke import InvokeTags, invoke_calls
from sglang.parsers.tools.writer import CallWriter

TAGS = InvokeTags(
    ("<｜tool_calls_begin｜>", "<｜tool_call_begin｜>"),
    "<steptml:invoke ",
    "</steptml:invoke>",
    "<steptml:parameter ",
    "</steptml:parameter>",
)


def read(src: Source, out: CallWriter) -> Reader[None]:
    yield from invoke_calls(src, out, TAGS)
