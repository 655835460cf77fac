"""gemma4: ``<|tool_call>call:NAME{key:<|"|>text<|"|>,n:1}<tool_call|>``, repeated. Keys are bare."""

from __future__ import annotations

import json

from sglang.parsers.json_text import MAX_DEPTH, json_chars, json_value
from sglang.parsers.source import Emit, Reader, Source, accept, begins_with, ignore, peek, read_until, space, until
from sglang.parsers.tools.writer import MAX_NAME_CHARS, CallWriter

BEGIN = "<|tool_call>"
END = "<tool_call|>"
QUOTE = '<|"|>'


def read(src: Source, out: CallWriter) -> Reader[None]:
    emit = out.text
    while (yield from until(src, (BEGIN,), emit)) is not None:
        emit = ignore
        out.block()
        yield from space(src)
        yield from accept(src, "call:")
        name, marker = yield from read_until(src, ("{",), MAX_NAME_CHARS)
        if marker is None:
            continue
        out.start(name.strip())
        out.end((yield from _members(src, out.arguments, 1)))


def _members(src: Source, emit: Emit, depth: int) -> Reader[bool]:
    """Read ``key:value,...}`` and emit a JSON object."""
    emit("{")
    first = True
    while True:
        yield from space(src)
        if (yield from accept(src, "}")):
            emit("}")
            return True
        key = yield from _key(src)
        if key is None:
            return False
        emit(f"{'' if first else ', '}{json.dumps(key, ensure_ascii=False)}: ")
        first = False
        yield from space(src)
        if not (yield from _value(src, emit, depth)):
            return False
        yield from space(src)
        if not (yield from accept(src, ",")) and (yield from peek(src)) != "}":
            return False


def _key(src: Source) -> Reader[str | None]:
    quote = yield from begins_with(src, (QUOTE, '"'))
    if quote is not None:
        src.take(len(quote))
        key, marker = yield from read_until(src, (quote,), MAX_NAME_CHARS)
        yield from space(src)
        return key if marker is not None and (yield from accept(src, ":")) else None
    key, marker = yield from read_until(src, (":",), MAX_NAME_CHARS)
    return key.strip() if marker is not None else None


def _value(src: Source, emit: Emit, depth: int) -> Reader[bool]:
    if (yield from accept(src, QUOTE)):
        emit('"')
        closed = yield from until(src, (QUOTE,), lambda text: emit(json_chars(text)))
        emit('"' if closed is not None else "")
        return closed is not None
    if depth >= MAX_DEPTH:
        return False
    if (yield from accept(src, "{")):
        return (yield from _members(src, emit, depth + 1))
    if (yield from accept(src, "[")):
        return (yield from _items(src, emit, depth + 1))
    return (yield from json_value(src, emit))


def _items(src: Source, emit: Emit, depth: int) -> Reader[bool]:
    emit("[")
    first = True
    while True:
        yield from space(src)
        if (yield from accept(src, "]")):
            emit("]")
            return True
        emit("" if first else ", ")
        first = False
        if not (yield from _value(src, emit, depth)):
            return False
        yield from space(src)
        if not (yield from accept(src, ",")) and (yield from peek(src)) != "]":
            return False
