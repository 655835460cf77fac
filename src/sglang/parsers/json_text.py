"""JSON that arrives in pieces: checked strictly while it passes, so that what was emitted is right so far."""

from __future__ import annotations

import json
import re

from sglang.parsers.source import Emit, Reader, Source, accept, peek, space

MAX_DEPTH = 100
MAX_NUMBER_CHARS = 400

_PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_NUMBER_CHARS = re.compile(r"[-+0-9.eE]*")
_DIGITS = tuple("0123456789")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", re.ASCII)
_WORDS = {"t": "true", "f": "false", "n": "null"}


def json_value(src: Source, emit: Emit) -> Reader[bool]:
    """Read one value and emit it, spaced in the usual way (``{"a": 1, "b": []}``), scalars as they stand.

    False where it is malformed or cut; the rest stays unread then. Raw control characters inside strings, which
    models write in code arguments, are emitted as escapes.
    """
    closers: list[str] = []
    state = "value"
    while True:
        if closers:
            yield from space(src)
        char = yield from peek(src)
        if not char:
            return False
        if state == "value" or (state == "first" and char != "]"):
            if char in "{[":
                if len(closers) >= MAX_DEPTH:
                    return False
                emit(src.take(1))
                closers.append("}" if char == "{" else "]")
                state = "first key" if char == "{" else "first"
                continue
            if not (yield from _scalar(src, char, emit)):
                return False
        elif state in ("key", "first key") and char == '"':
            if not (yield from json_string(src, emit)):
                return False
            yield from space(src)
            if not (yield from accept(src, ":")):
                return False
            emit(": ")
            state = "value"
            continue
        elif state == "next" and char == ",":
            src.take(1)
            emit(", ")
            state = "key" if closers[-1] == "}" else "value"
            continue
        elif state in ("first", "first key", "next") and char == closers[-1]:
            emit(src.take(1))
            closers.pop()
        else:
            return False
        if not closers:
            return True
        state = "next"


def _scalar(src: Source, char: str, emit: Emit) -> Reader[bool]:
    if char == '"':
        return (yield from json_string(src, emit))
    if char in "-0123456789":
        return (yield from _number(src, emit))
    word = _WORDS.get(char)
    if word is None or not (yield from accept(src, word)):
        return False
    emit(word)
    return True


def _number(src: Source, emit: Emit) -> Reader[bool]:
    number = ""
    while True:
        match = _NUMBER_CHARS.match(src.text)
        part = src.take(min(match.end() if match else 0, MAX_NUMBER_CHARS - len(number)))
        number += part
        if part:
            emit(part)
        if src.text or src.closed:
            return _NUMBER.fullmatch(number) is not None and src.text[:1] not in _DIGITS
        yield


def json_string(src: Source, emit: Emit) -> Reader[bool]:
    """Read a string, quotes included."""
    if not (yield from accept(src, '"')):
        return False
    emit('"')
    while True:
        if match := _PLAIN.match(src.text):
            emit(src.take(match.end()))
        char = src.text[:1]
        if char == '"':
            emit(src.take(1))
            return True
        size = 6 if src.text[1:2] == "u" else 2
        if char == "\\" and len(src.text) >= size:
            if not _ESCAPE.fullmatch(src.text[:size]):
                return False
            emit(src.take(size))
        elif char and char != "\\":
            emit(json.dumps(src.take(1))[1:-1])
        elif src.closed:
            return False
        else:
            yield


def read_json(src: Source) -> Reader[str | None]:
    """The text of one value, whole; None where it is malformed or cut."""
    parts: list[str] = []
    return "".join(parts) if (yield from json_value(src, parts.append)) else None


def read_json_string(src: Source) -> Reader[str | None]:
    """A string's content; None where there is no whole string."""
    parts: list[str] = []
    if not (yield from json_string(src, parts.append)):
        return None
    return str(json.loads("".join(parts)))


def json_chars(text: str) -> str:
    """Text as it stands inside a JSON string. Character by character, so that pieces can be joined."""
    return json.dumps(text, ensure_ascii=False)[1:-1]
