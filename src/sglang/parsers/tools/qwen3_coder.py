"""qwen3_coder, step3p5, nanbeige, mimo: ``<tool_call><function=NAME><parameter=KEY>value</parameter>...``."""

from __future__ import annotations

from sglang.parsers.source import Reader, Source, accept, ignore, read_until, space, until
from sglang.parsers.tools.writer import MAX_NAME_CHARS, CallWriter
from sglang.parsers.tools.xml_values import TagArguments

BEGIN = "<tool_call>"
END = "</tool_call>"
FUNCTION = "<function="
FUNCTION_END = "</function>"
PARAMETER = "<parameter="
PARAMETER_END = "</parameter>"


def read(src: Source, out: CallWriter) -> Reader[None]:
    """Models forget the outer pair now and then, so the function's own tag is enough."""
    emit = out.text
    while True:
        marker = yield from until(src, (BEGIN, FUNCTION), emit)
        if marker is None:
            return
        if marker == BEGIN:
            skipped: list[str] = []
            yield from space(src, skipped.append)
            if not (yield from accept(src, FUNCTION)):
                if not FUNCTION.startswith(src.text):  # else the output was cut right here
                    emit(BEGIN + "".join(skipped))
                continue
        emit = ignore
        out.block()
        out.end((yield from _function(src, out)))


def _function(src: Source, out: CallWriter) -> Reader[bool]:
    name, marker = yield from read_until(src, (">",), MAX_NAME_CHARS)
    if marker is None:
        return False
    out.start(name.strip())
    arguments = TagArguments(out, name.strip())
    while True:
        marker = yield from until(src, (PARAMETER, FUNCTION_END, END), ignore)
        if marker is None:
            return False
        if marker != PARAMETER:
            arguments.close()
            return True
        key, marker = yield from read_until(src, (">",), MAX_NAME_CHARS)
        if marker is None or not (yield from arguments.value(src, key.strip(), PARAMETER_END, trim=True)):
            return False
