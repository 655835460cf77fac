"""lfm2: ``<|tool_call_start|>[f(a="b")]<|tool_call_end|>``; a JSON list or object of calls is taken too."""

from __future__ import annotations

from sglang.parsers.source import Reader, Source, accept, ignore, lookahead, peek, space, until
from sglang.parsers.tools.json_calls import json_call, json_call_array
from sglang.parsers.tools.pythonic import python_calls
from sglang.parsers.tools.writer import CallWriter

BEGIN = "<|tool_call_start|>"
END = "<|tool_call_end|>"


def read(src: Source, out: CallWriter) -> Reader[None]:
    emit = out.text
    while (yield from until(src, (BEGIN,), emit)) is not None:
        emit = ignore
        out.block()
        yield from space(src)
        if (yield from peek(src)) == "{":
            yield from json_call(src, out)
        elif (yield from lookahead(src, _is_json_list)):
            yield from json_call_array(src, out)
        else:
            yield from python_calls(src, out)


def _is_json_list(src: Source) -> Reader[bool]:
    if not (yield from accept(src, "[")):
        return False
    yield from space(src)
    return (yield from peek(src)) == "{"
