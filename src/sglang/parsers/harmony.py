"""gpt-oss: messages on channels, ``<|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final...``.

The analysis channel is thinking, the final channel (and a commentary to nobody) is text, a commentary to
``functions.NAME`` is a tool call.
"""

from __future__ import annotations

import re

from sglang.parsers.events import ParserEvent, ReasoningDelta
from sglang.parsers.source import Emit, Reader, Source, begins_with, close, feed, ignore, read_until, space, until
from sglang.parsers.tools.json_calls import json_arguments
from sglang.parsers.tools.writer import CallWriter, ToolSpecs

CHANNEL = "<|channel|>"
MESSAGE = "<|message|>"
START = "<|start|>"
ENDS = ("<|end|>", "<|call|>", "<|return|>")
MAX_HEADER_CHARS = 512

_HEADER_BEGINS = (CHANNEL, START, MESSAGE, "<|constrain|>", " to=", "to=functions.")
_RECIPIENT = re.compile(r"\bto=([^\s<]+)")
_CHANNEL_NAME = re.compile(r"<\|channel\|>\s*(\w+)")


class HarmonyWriter(CallWriter):
    """A call writer that takes thoughts as well."""

    def reasoning(self, text: str) -> None:
        if text:
            self._events.append(ReasoningDelta(text))


class HarmonyParser:
    """See :class:`sglang.parsers.output.TextParser`.

    ``separate``: thoughts are events of their own, else they are text. ``tools``: None where calls are not looked
    for; their messages are text then.
    """

    def __init__(self, separate: bool = True, tools: ToolSpecs | None = None) -> None:
        self._source = Source()
        self._writer = HarmonyWriter(tools or ToolSpecs())
        reasoning = self._writer.reasoning if separate else self._writer.text
        self._reader = _read(self._source, self._writer, reasoning, tools is not None)
        next(self._reader, None)

    def push(self, text: str) -> list[ParserEvent]:
        feed(self._source, self._reader, text)
        return self._writer.take()

    def finish(self) -> list[ParserEvent]:
        close(self._source, self._reader)
        self._writer.finish()
        return self._writer.take()


def _read(src: Source, out: HarmonyWriter, reasoning: Emit, calls: bool) -> Reader[None]:
    if (yield from begins_with(src, _HEADER_BEGINS)) is None:
        # Not in the format at all, for instance because a grammar rules: all of it is the answer.
        if (marker := (yield from until(src, (CHANNEL, START), out.text))) is None:
            return
        src.unread(marker)
    while src.text or not src.closed:
        header, marker = yield from read_until(src, (MESSAGE,), MAX_HEADER_CHARS)
        if marker is None:
            if src.closed and not src.text:
                return
            continue
        if (yield from _body(src, out, header, reasoning, calls)) is None:
            return


def _body(src: Source, out: HarmonyWriter, header: str, reasoning: Emit, calls: bool) -> Reader[str | None]:
    """Read one message; returns what ended it."""
    channel = _CHANNEL_NAME.search(header)
    recipient = _RECIPIENT.search(header)
    emit: Emit = out.text
    if recipient is not None:
        name = recipient[1].removeprefix("functions.")
        if calls and recipient[1].startswith("functions."):
            out.start(name)
            yield from space(src)
            out.end((yield from json_arguments(src, out.arguments)))
        emit = ignore if calls else out.text
    elif channel is not None and channel[1] == "analysis":
        emit = reasoning
    ended = yield from until(src, (*ENDS, START, CHANNEL), emit)
    if ended in (START, CHANNEL):
        src.unread(ended or "")
    return ended
