"""deepseekv3: each call is a kind, a name and a fenced JSON block between special tokens."""

from __future__ import annotations

from sglang.parsers.source import Reader, Source, ignore, read_until, until
from sglang.parsers.tools.json_calls import json_arguments
from sglang.parsers.tools.writer import MAX_NAME_CHARS, CallWriter

CALLS_BEGIN = "<｜tool▁calls▁begin｜>"
CALLS_END = "<｜tool▁calls▁end｜>"
CALL_BEGIN = "<｜tool▁call▁begin｜>"
CALL_END = "<｜tool▁call▁end｜>"
SEPARATOR = "<｜tool▁sep｜>"


def read(src: Source, out: CallWriter) -> Reader[None]:
    marker = yield from until(src, (CALLS_BEGIN, CALL_BEGIN), out.text)
    while marker is not None:
        out.block()
        if marker == CALL_BEGIN:
            yield from _call(src, out)
        marker = yield from until(src, (CALL_BEGIN,), ignore)


def _call(src: Source, out: CallWriter) -> Reader[None]:
    _kind, marker = yield from read_until(src, (SEPARATOR,), MAX_NAME_CHARS)
    if marker is None:
        return
    head, marker = yield from read_until(src, ("{",), MAX_NAME_CHARS + 64)
    if marker is None:
        return
    src.unread("{")
    out.start(head.split("\n", 1)[0].removesuffix("```json").strip())
    out.end((yield from json_arguments(src, out.arguments)))
