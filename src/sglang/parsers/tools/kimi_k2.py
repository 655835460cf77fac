"""kimi_k2: ``<|tool_call_begin|>functions.NAME:INDEX<|tool_call_argument_begin|>{...}<|tool_call_end|>`` in a section.

The head is the call's id as well.
"""

from __future__ import annotations

import re

from sglang.parsers.source import Reader, Source, ignore, read_until, space, until
from sglang.parsers.tools.json_calls import json_arguments
from sglang.parsers.tools.writer import MAX_NAME_CHARS, CallWriter

SECTION_BEGIN = "<|tool_calls_section_begin|>"
SECTION_END = "<|tool_calls_section_end|>"
CALL_BEGIN = "<|tool_call_begin|>"
ARGUMENTS_BEGIN = "<|tool_call_argument_begin|>"
CALL_END = "<|tool_call_end|>"

_HEAD = re.compile(r"(?:functions\.)?(?P<name>.+?)(?::\d+)?")


def read(src: Source, out: CallWriter) -> Reader[None]:
    marker = yield from until(src, (SECTION_BEGIN, CALL_BEGIN), out.text)
    while marker is not None:
        out.block()
        if marker == CALL_BEGIN:
            yield from _call(src, out)
        marker = yield from until(src, (CALL_BEGIN,), ignore)


def _call(src: Source, out: CallWriter) -> Reader[None]:
    head, marker = yield from read_until(src, (ARGUMENTS_BEGIN,), MAX_NAME_CHARS)
    match = _HEAD.fullmatch(head.strip())
    if marker is None or match is None:
        return
    out.start(match["name"], head.strip())
    yield from space(src)
    out.end((yield from json_arguments(src, out.arguments)))
