"""Python literals that arrive in pieces, emitted as JSON."""

from __future__ import annotations

import json
import re

from sglang.parsers.json_text import MAX_DEPTH, MAX_NUMBER_CHARS, json_chars
from sglang.parsers.source import Emit, Reader, Source, accept, peek, space

_WORD = re.compile(r"[A-Za-z]*")
_WORDS = {
    "True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"
}  # fmt: skip
_NUMBER_CHARS = re.compile(r"[-+0-9._eE]*")
_NUMBER = re.compile(r"[-+]?[0-9]+(?:_[0-9]+)*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|[-+]?\.[0-9]+(?:[eE][-+]?[0-9]+)?")
_NAME = re.compile(r"[^\W\d][\w.]*")
_NAME_CHARS = re.compile(r"[\w.]*")
_ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v", "0": "\0", "\\": "\\", "'": "'",
    '"': '"', "\n": "",
}  # fmt: skip
_CODES = {"x": 2, "u": 4, "U": 8}
_CLOSERS = {"[": "]", "(": ")", "{": "}"}


def python_value(src: Source, emit: Emit, depth: int = 0) -> Reader[bool]:
    """Read a literal (string, number, constant, list, tuple, dict with text keys) and emit it as JSON.

    False where it is something else or cut.
    """
    char = yield from peek(src)
    if char and char in "'\"":
        return (yield from _string(src, emit))
    if char and char in "[({":
        if depth >= MAX_DEPTH:
            return False
        src.take(1)
        return (yield from _items(src, _CLOSERS[char], emit, depth + 1))
    if char and char in "-+.0123456789":
        return (yield from _number(src, emit))
    word = yield from _matching(src, _WORD, 16)
    if word not in _WORDS:
        return False
    emit(_WORDS[word])
    return True


def read_name(src: Source, limit: int = 256) -> Reader[str | None]:
    """A dotted name; None where there is none."""
    name = yield from _matching(src, _NAME_CHARS, limit)
    return name if len(name) <= limit and _NAME.fullmatch(name) else None


def _matching(src: Source, chars: re.Pattern[str], limit: int) -> Reader[str]:
    """The run of characters that fit, up to a little more than ``limit`` of them."""
    found = ""
    while True:
        match = chars.match(src.text)
        found += src.take(match.end() if match else 0)
        if src.text or src.closed or len(found) > limit:
            return found
        yield


def _items(src: Source, closer: str, emit: Emit, depth: int) -> Reader[bool]:
    is_dict = closer == "}"
    emit("{" if is_dict else "[")
    first = True
    while True:
        yield from space(src)
        if (yield from accept(src, closer)):
            emit("}" if is_dict else "]")
            return True
        if not first:
            emit(", ")
        first = False
        if is_dict:
            if (yield from peek(src)) not in ("'", '"') or not (yield from _string(src, emit)):
                return False
            yield from space(src)
            if not (yield from accept(src, ":")):
                return False
            emit(": ")
            yield from space(src)
        if not (yield from python_value(src, emit, depth)):
            return False
        yield from space(src)
        if not (yield from accept(src, ",")) and (yield from peek(src)) != closer:
            return False


def _number(src: Source, emit: Emit) -> Reader[bool]:
    text = yield from _matching(src, _NUMBER_CHARS, MAX_NUMBER_CHARS)
    if len(text) > MAX_NUMBER_CHARS or not _NUMBER.fullmatch(text):
        return False
    value = float(text) if any(char in text for char in ".eE") else int(text)
    try:
        emit(json.dumps(value, allow_nan=False))
    except ValueError:  # beyond the largest float
        return False
    return True


def _string(src: Source, emit: Emit) -> Reader[bool]:
    quote = src.text[0]
    if not (yield from accept(src, quote * 3)):
        src.take(1)
        if (yield from accept(src, quote)):
            emit('""')
            return True
    else:
        quote *= 3
    emit('"')
    while True:
        plain = re.match(r"[^\\'\"]+", src.text)
        if plain:
            emit(json_chars(src.take(plain.end())))
        char = yield from peek(src)
        if not char:
            return False
        if char == "\\":
            if not (yield from _escape(src, emit)):
                return False
        elif char in "'\"":
            if (yield from accept(src, quote)):
                emit('"')
                return True
            emit(json_chars(src.take(1)))


def _escape(src: Source, emit: Emit) -> Reader[bool]:
    """Read an escape sequence. One that Python does not know stands for itself, backslash and all."""
    while len(src.text) < 2:
        if src.closed:
            return False
        yield
    kind = src.text[1]
    size = _CODES.get(kind, 0)
    while len(src.text) < 2 + size:
        if src.closed:
            return False
        yield
    digits = src.text[2 : 2 + size]
    if size and re.fullmatch(r"[0-9a-fA-F]+", digits) and int(digits, 16) < 0x110000:
        src.take(2 + size)
        # Half a surrogate pair can't travel as text; as an escape it joins with its other half.
        emit(json.dumps(chr(int(digits, 16)))[1:-1])
        return True
    sequence = src.take(2)
    emit(json_chars(_ESCAPES.get(kind, sequence)))
    return True
