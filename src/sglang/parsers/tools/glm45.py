"""glm, glm45, glm47, poolside_v1: ``<tool_call>NAME<arg_key>K</arg_key><arg_value>V</arg_value>...</tool_call>``."""

from __future__ import annotations

from sglang.parsers.source import Reader, Source, ignore, read_until, until
from sglang.parsers.tools.writer import MAX_NAME_CHARS, CallWriter
from sglang.parsers.tools.xml_values import TagArguments

BEGIN = "<tool_call>"
END = "</tool_call>"
KEY = "<arg_key>"
KEY_END = "</arg_key>"
VALUE = "<arg_value>"
VALUE_END = "</arg_value>"


def read(src: Source, out: CallWriter) -> Reader[None]:
    emit = out.text
    while (yield from until(src, (BEGIN,), emit)) is not None:
        emit = ignore
        yield from tagged_call(src, out, ("\n", KEY, END))


def tagged_call(src: Source, out: CallWriter, name_ends: tuple[str, ...]) -> Reader[None]:
    """Read the inside of one call: the name up to one of ``name_ends``, then keys and values up to the end tag."""
    out.block()
    name, marker = "", None
    while not name:  # line breaks may stand before the name
        name, marker = yield from read_until(src, name_ends, MAX_NAME_CHARS)
        name = name.strip()
        if marker is None:
            return
        if marker in (KEY, END):
            src.unread(marker)
            break
    out.start(name)
    out.end((yield from _arguments(src, out, name)))


def _arguments(src: Source, out: CallWriter, name: str) -> Reader[bool]:
    arguments = TagArguments(out, name)
    while True:
        marker = yield from until(src, (KEY, END), ignore)
        if marker is None:
            return False
        if marker == END:
            arguments.close()
            return True
        key, marker = yield from read_until(src, (KEY_END,), MAX_NAME_CHARS)
        if marker is None or (yield from until(src, (VALUE,), ignore)) is None:
            return False
        if not (yield from arguments.value(src, key.strip(), VALUE_END, trim=False)):
            return False
