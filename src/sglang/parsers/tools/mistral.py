"""mistral: ``[TOOL_CALLS] [{"name": ..., "arguments": {...}}, ...]`` or ``[TOOL_CALLS]name[ARGS]{...}``, repeated."""

from __future__ import annotations

from sglang.parsers.source import Reader, Source, ignore, peek, read_until, space, until
from sglang.parsers.tools.json_calls import json_arguments, json_call, json_call_array
from sglang.parsers.tools.writer import MAX_NAME_CHARS, CallWriter

BEGIN = "[TOOL_CALLS]"
_ID = "[CALL_ID]"
_ARGUMENTS = "[ARGS]"


def read(src: Source, out: CallWriter) -> Reader[None]:
    emit = out.text
    while (yield from until(src, (BEGIN,), emit)) is not None:
        emit = ignore
        out.block()
        yield from space(src)
        char = yield from peek(src)
        if char == "[":
            yield from json_call_array(src, out)
        elif char == "{":
            yield from json_call(src, out)
        else:
            yield from _named(src, out)


def _named(src: Source, out: CallWriter) -> Reader[None]:
    name, marker = yield from read_until(src, (_ID, _ARGUMENTS, "{"), MAX_NAME_CHARS)
    call_id = None
    if marker == _ID:
        call_id, marker = yield from read_until(src, (_ARGUMENTS, "{"), MAX_NAME_CHARS)
    if marker is None:
        return
    if marker == "{":
        src.unread("{")
    out.start(name.strip(), call_id.strip() or None if call_id is not None else None)
    yield from space(src)
    out.end((yield from json_arguments(src, out.arguments)))
