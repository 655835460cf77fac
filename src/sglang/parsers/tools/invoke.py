"""Calls as ``<invoke name="N"><parameter name="P">value</parameter>...</invoke>``, with tag names of each format."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sglang.parsers.source import Reader, Source, ignore, read_until, until
from sglang.parsers.tools.writer import MAX_NAME_CHARS, CallWriter
from sglang.parsers.tools.xml_values import TagArguments

_NAME = re.compile(r"""\s*name\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_IS_TEXT = re.compile(r"""\bstring\s*=\s*["']?(true|false)""")


@dataclass(frozen=True, slots=True)
class InvokeTags:
    """``block``: the markers around all calls; either of them only ends text."""

    block: tuple[str, ...]
    invoke: str
    invoke_end: str
    parameter: str
    parameter_end: str
    trim: bool = False


def invoke_calls(src: Source, out: CallWriter, tags: InvokeTags) -> Reader[None]:
    """Read a whole answer."""
    emit = out.text
    while (marker := (yield from until(src, (*tags.block, tags.invoke), emit))) is not None:
        emit = ignore
        out.block()
        if marker == tags.invoke:
            out.end((yield from _invoke(src, out, tags)))


def _invoke(src: Source, out: CallWriter, tags: InvokeTags) -> Reader[bool]:
    head, marker = yield from read_until(src, (">",), MAX_NAME_CHARS)
    name = _name(head)
    if marker is None or name is None:
        return False
    out.start(name)
    arguments = TagArguments(out, name)
    while True:
        marker = yield from until(src, (tags.parameter, tags.invoke_end), ignore)
        if marker is None:
            return False
        if marker == tags.invoke_end:
            arguments.close()
            return True
        head, marker = yield from read_until(src, (">",), MAX_NAME_CHARS)
        key = _name(head)
        if marker is None or key is None:
            return False
        is_text = _IS_TEXT.search(head)
        told = None if is_text is None else is_text[1] == "true"
        if not (yield from arguments.value(src, key, tags.parameter_end, tags.trim, told)):
            return False


def _name(head: str) -> str | None:
    match = _NAME.match(head)
    return None if match is None else next(group for group in match.groups() if group is not None)
