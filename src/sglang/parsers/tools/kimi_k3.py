"""kimi_k3: blocks ``<|open|>NAME attributes<|sep|>...<|close|>NAME<|sep|>``, nested.

The answer stands in ``response``; ``tools`` holds calls, ``call tool="NAME" index="1"``, whose arguments are blocks,
``argument key="KEY" type="TYPE"``: plain text where the type is string, JSON where it is another.
"""

from __future__ import annotations

import re

from sglang.parsers.source import Reader, Source, ignore, read_until, until
from sglang.parsers.tools.writer import MAX_NAME_CHARS, CallWriter
from sglang.parsers.tools.xml_values import TagArguments

OPEN = "<|open|>"
CLOSE = "<|close|>"
SEPARATOR = "<|sep|>"
RESPONSE = (f"{OPEN}response{SEPARATOR}", f"{CLOSE}response{SEPARATOR}")
TOOLS = f"{OPEN}tools{SEPARATOR}"
CALL = f"{OPEN}call "
CALL_END = f"{CLOSE}call{SEPARATOR}"
ARGUMENT = f"{OPEN}argument "
ARGUMENT_END = f"{CLOSE}argument{SEPARATOR}"
MESSAGE_END = f"{CLOSE}message{SEPARATOR}"

_TOOL = re.compile(r'\btool="([^"]*)"')
_KEY = re.compile(r'\bkey="([^"]*)"')
_TYPE = re.compile(r'\btype="([^"]*)"')


def read(src: Source, out: CallWriter) -> Reader[None]:
    emit = out.text
    while (marker := (yield from until(src, (*RESPONSE, TOOLS, CALL, MESSAGE_END), emit))) is not None:
        if marker in (TOOLS, CALL):
            emit = ignore
            out.block()
        if marker == CALL:
            out.end((yield from _call(src, out)))


def _call(src: Source, out: CallWriter) -> Reader[bool]:
    head, marker = yield from read_until(src, (SEPARATOR,), MAX_NAME_CHARS)
    tool = _TOOL.search(head)
    if marker is None or tool is None:
        return False
    out.start(tool[1])
    arguments = TagArguments(out, tool[1])
    while True:
        marker = yield from until(src, (ARGUMENT, CALL_END), ignore)
        if marker is None:
            return False
        if marker == CALL_END:
            arguments.close()
            return True
        head, marker = yield from read_until(src, (SEPARATOR,), MAX_NAME_CHARS)
        key, kind = _KEY.search(head), _TYPE.search(head)
        if marker is None or key is None:
            return False
        is_text = kind[1] == "string" if kind is not None else None
        if not (yield from arguments.value(src, key[1], ARGUMENT_END, False, is_text)):
            return False
