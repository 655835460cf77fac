"""deepseekv31: ``<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{...}<｜tool▁call▁end｜>`` inside one outer pair of tokens."""

from __future__ import annotations

from sglang.parsers.source import Reader, Source, ignore, read_until, space, until
from sglang.parsers.tools.deepseekv3 import CALL_BEGIN, CALLS_BEGIN, SEPARATOR
from sglang.parsers.tools.json_calls import json_arguments
from sglang.parsers.tools.writer import MAX_NAME_CHARS, CallWriter


def read(src: Source, out: CallWriter) -> Reader[None]:
    marker = yield from until(src, (CALLS_BEGIN, CALL_BEGIN), out.text)
    while marker is not None:
        out.block()
        if marker == CALL_BEGIN:
            name, marker = yield from read_until(src, (SEPARATOR,), MAX_NAME_CHARS)
            if marker is not None:
                out.start(name.strip())
                yield from space(src)
                out.end((yield from json_arguments(src, out.arguments)))
        marker = yield from until(src, (CALL_BEGIN,), ignore)
