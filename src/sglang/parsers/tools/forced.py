"""A forced call without a grammar of the model's own format: a JSON list of ``{"name": ..., "parameters": {...}}``."""

from __future__ import annotations

from sglang.parsers.source import Reader, Source, ignore, peek, space, until
from sglang.parsers.tools.json_calls import json_call, json_call_array
from sglang.parsers.tools.writer import CallWriter


def read(src: Source, out: CallWriter) -> Reader[None]:
    yield from space(src, out.text)
    char = yield from peek(src)
    if char in ("[", "{"):
        out.block()
        yield from json_call_array(src, out) if char == "[" else json_call(src, out)
        yield from until(src, (), ignore)
    yield from until(src, (), out.text)
