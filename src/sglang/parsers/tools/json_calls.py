"""Calls written as JSON objects: ``{"name": ..., "arguments": {...}}``."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sglang.parsers.json_text import json_string, json_value, read_json_string
from sglang.parsers.source import Emit, Reader, Source, accept, begins_with, ignore, peek, space, until
from sglang.parsers.tools.writer import MAX_NAME_CHARS, CallWriter

NAMES = ("name", "tool_name")
ARGUMENTS = ("arguments", "parameters", "args")


def json_call(src: Source, out: CallWriter) -> Reader[bool]:
    """Read one object, name and arguments in either order, other keys ignored. False where it is malformed or cut."""
    out.block()
    complete = yield from _members(src, out)
    out.end(complete)
    return complete


def _members(src: Source, out: CallWriter) -> Reader[bool]:
    if not (yield from accept(src, "{")):
        return False
    named = False
    early: list[str] | None = None  # arguments that came before the name
    given = False
    while True:
        key = yield from _key(src)
        if key is None:
            return False
        if key in NAMES and not named:
            name = yield from read_json_string(src)
            if name is None or len(name) > MAX_NAME_CHARS:
                return False
            out.start(name)
            named = True
            for part in early or ():
                out.arguments(part)
        elif key in ARGUMENTS and not given:
            given = True
            early = []
            if not (yield from json_arguments(src, out.arguments if named else early.append)):
                return False
        elif not (yield from json_value(src, ignore)):
            return False
        yield from space(src)
        if (yield from accept(src, "}")):
            break
        if not (yield from accept(src, ",")):
            return False
    if named and not given:
        out.arguments("{}")
    return named


def _key(src: Source) -> Reader[str | None]:
    yield from space(src)
    key = yield from read_json_string(src)
    yield from space(src)
    if key is None or not (yield from accept(src, ":")):
        return None
    yield from space(src)
    return key


def json_arguments(src: Source, emit: Emit) -> Reader[bool]:
    """Read the value of the arguments: an object, the text of one, or nothing ("" and null)."""
    char = yield from peek(src)
    if char == "{":
        return (yield from json_value(src, emit))
    if char == '"':
        inner = yield from read_json_string(src)
        if inner is None or not _is_object(inner or "{}"):
            return False
        emit(inner or "{}")
        return True
    if not (yield from accept(src, "null")):
        return False
    emit("{}")
    return True


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def json_call_array(src: Source, out: CallWriter) -> Reader[bool]:
    """Read ``[{call}, {call}, ...]``. False where it is malformed or cut."""
    if not (yield from accept(src, "[")):
        return False
    while True:
        yield from space(src)
        if (yield from accept(src, "]")):
            return True
        if (yield from peek(src)) != "{" or not (yield from json_call(src, out)):
            return False
        yield from space(src)
        if not (yield from accept(src, ",")) and (yield from peek(src)) != "]":
            return False


def tagged_json_calls(src: Source, out: CallWriter, begin: str, end: str, inner: Sequence[str] = ()) -> Reader[None]:
    """Read an answer with any number of ``begin {call} end`` blocks; ``inner`` markers may stand before the object.

    A begin that no object follows is text. A missing end does no harm.
    """
    marker = yield from until(src, (begin,), out.text)
    while marker is not None:
        skipped: list[str] = []
        yield from space(src, skipped.append)
        if inner and (found := (yield from begins_with(src, inner))) is not None:
            skipped.append(src.take(len(found)))
            yield from space(src, skipped.append)
        if (yield from peek(src)) in ("{", ""):
            yield from json_call(src, out)
            marker = yield from until(src, (end, begin), ignore)
            if marker == begin:
                continue
        else:
            out.text(begin + "".join(skipped))
        marker = yield from until(src, (begin,), out.text)


def call_name(src: Source) -> Reader[str | None]:
    """The name in an object that starts with it (or with a short type or id). For :func:`lookahead`."""
    yield from space(src)
    if not (yield from accept(src, "{")):
        return None
    for _ in range(3):
        yield from space(src)
        key = yield from _short_string(src)
        yield from space(src)
        if key is None or not (yield from accept(src, ":")):
            return None
        yield from space(src)
        value = yield from _short_string(src)
        if value is None or key in NAMES:
            return value
        yield from space(src)
        if key not in ("type", "id") or not (yield from accept(src, ",")):
            return None
    return None


def _short_string(src: Source) -> Reader[str | None]:
    """A string of up to MAX_NAME_CHARS characters."""
    parts: list[str] = []
    size = 0

    def emit(text: str) -> None:
        nonlocal size
        size += len(text)
        parts.append(text)

    reader = json_string(src, emit)
    while True:
        try:
            next(reader)
        except StopIteration as end:
            return str(json.loads("".join(parts))) if end.value and size <= MAX_NAME_CHARS + 2 else None
        if size > MAX_NAME_CHARS + 2:
            return None
        yield
