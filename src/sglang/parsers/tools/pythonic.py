"""pythonic: ``[f(a=1), g(b="x")]``; ``<|python_start|>`` and ``<|python_end|>`` around it are optional."""

from __future__ import annotations

import json

from sglang.parsers.python_text import python_value, read_name
from sglang.parsers.source import Reader, Source, accept, ignore, lookahead, peek, space, until
from sglang.parsers.tools.writer import CallWriter

START = "<|python_start|>"
END = "<|python_end|>"


def read(src: Source, out: CallWriter) -> Reader[None]:
    """Without the marker a bracket opens calls only where a known tool follows; prose has brackets too."""
    while (marker := (yield from until(src, (START, "[", END), out.text))) is not None:
        if marker == END:
            continue
        src.unread("[" if marker == "[" else "")
        if marker == START:
            yield from space(src)
        name = yield from lookahead(src, _first_name)
        if marker == START or (name is not None and name in out.tools.parameters):
            out.block()
            if not (yield from python_calls(src, out)):
                yield from until(src, (), ignore)  # brackets inside a malformed call are no calls
        elif marker == "[":
            out.text(src.take(1))


def _first_name(src: Source) -> Reader[str | None]:
    yield from accept(src, "[")
    yield from space(src)
    name = yield from read_name(src)
    return name if name is not None and (yield from accept(src, "(")) else None


def python_calls(src: Source, out: CallWriter) -> Reader[bool]:
    """Read ``[f(...), ...]`` or a bare ``f(...)``. False where it is malformed or cut."""
    listed = yield from accept(src, "[")
    while True:
        yield from space(src)
        if listed and (yield from accept(src, "]")):
            return True
        name = yield from read_name(src)
        if name is None or not (yield from accept(src, "(")):
            return False
        out.start(name)
        whole = yield from _arguments(src, out)
        out.end(whole)
        if not whole:
            return False
        yield from space(src)
        if not (yield from accept(src, ",")) and (not listed or (yield from peek(src)) != "]"):
            return not listed


def _arguments(src: Source, out: CallWriter) -> Reader[bool]:
    """Read ``a=1, b="x")``. The JSON object is emitted argument by argument."""
    opened = False
    while True:
        yield from space(src)
        if (yield from accept(src, ")")):
            out.arguments("}" if opened else "{}")
            return True
        key = yield from read_name(src)
        yield from space(src)
        if key is None or not (yield from accept(src, "=")):
            return False
        out.arguments(f"{', ' if opened else '{'}{json.dumps(key, ensure_ascii=False)}: ")
        opened = True
        yield from space(src)
        if not (yield from python_value(src, out.arguments)):
            return False
        yield from space(src)
        if not (yield from accept(src, ",")) and (yield from peek(src)) != ")":
            return False
