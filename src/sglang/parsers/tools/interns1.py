"""interns1: ``<|action_start|> <|plugin|>`` + ``{"name": ..., "parameters": {...}}<|action_end|>``, repeated."""

from __future__ import annotations

from sglang.parsers.source import Reader, Source
from sglang.parsers.tools.json_calls import tagged_json_calls
from sglang.parsers.tools.writer import CallWriter

BEGIN = "<|action_start|>"
END = "<|action_end|>"


def read(src: Source, out: CallWriter) -> Reader[None]:
    yield from tagged_json_calls(src, out, BEGIN, END, inner=("<|plugin|>",))
