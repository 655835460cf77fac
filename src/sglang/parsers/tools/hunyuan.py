"""hunyuan: ``<tool_call>NAME<tool_sep><arg_key>K</arg_key><arg_value>V</arg_value></tool_call>`` in ``<tool_calls>``.

Older models write a JSON list of calls between the outer tags.
"""

from __future__ import annotations

from sglang.parsers.source import Reader, Source, ignore, peek, space, until
from sglang.parsers.tools.glm45 import BEGIN, END, tagged_call
from sglang.parsers.tools.json_calls import json_call_array
from sglang.parsers.tools.writer import CallWriter

CALLS_BEGIN = "<tool_calls>"
CALLS_END = "</tool_calls>"
SEPARATOR = "<tool_sep>"


def read(src: Source, out: CallWriter) -> Reader[None]:
    emit = out.text
    while (marker := (yield from until(src, (CALLS_BEGIN, BEGIN), emit))) is not None:
        emit = ignore
        out.block()
        if marker == BEGIN:
            yield from tagged_call(src, out, (SEPARATOR, END))
            continue
        yield from space(src)
        if (yield from peek(src)) == "[":
            yield from json_call_array(src, out)
