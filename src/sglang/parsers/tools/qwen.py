"""qwen, qwen25, hermes, trinity: ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``, repeated."""

from __future__ import annotations

from sglang.parsers.source import Reader, Source
from sglang.parsers.tools.json_calls import tagged_json_calls
from sglang.parsers.tools.writer import CallWriter

BEGIN = "<tool_call>"
END = "</tool_call>"


def read(src: Source, out: CallWriter) -> Reader[None]:
    yield from tagged_json_calls(src, out, BEGIN, END)
