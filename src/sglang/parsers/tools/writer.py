"""From what a format's reader finds to events, with the rules that all formats share."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from sglang.parsers.events import ParserEvent, TextDelta, ToolCallArguments, ToolCallEnd, ToolCallStart
from sglang.parsers.source import Source, close, feed

MAX_NAME_CHARS = 256


@dataclass(frozen=True, slots=True)
class ToolSpecs:
    """The tools a request offers: name → JSON schema of the arguments."""

    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    forward_unknown: bool = False
    """Report calls of tools that were not offered instead of dropping them."""
    max_calls: int | None = None
    """Further calls are dropped."""

    @classmethod
    def of(cls, tools: list[dict[str, Any]], forward_unknown: bool = False, max_calls: int | None = None) -> ToolSpecs:
        """From OpenAI's form ``{"function": {"name", "parameters"}}``."""
        functions = [tool["function"] for tool in tools]
        return cls({item["name"]: item.get("parameters") or {} for item in functions}, forward_unknown, max_calls)

    def __contains__(self, name: str) -> bool:
        return name in self.parameters or self.forward_unknown


class CallWriter:
    """Takes what readers find, in order; keeps the events until they are taken.

    - Text counts until the first call (or what claimed to be one); white space directly before it is dropped.
    - Calls of unknown tools are dropped, their arguments too; so are calls beyond ``tools.max_calls``.
    """

    def __init__(self, tools: ToolSpecs) -> None:
        self.tools = tools
        self._events: list[ParserEvent] = []
        self._arguments: list[str] = []
        self._held = ""
        self._blocked = False
        self._open: int | None = None
        self._count = 0

    def take(self) -> list[ParserEvent]:
        self._flush()
        events, self._events = self._events, []
        return events

    def text(self, text: str) -> None:
        if self._blocked or not text:
            return
        text = self._held + text
        kept = text.rstrip()
        self._held = text[len(kept) :]
        if kept:
            self._events.append(TextDelta(kept))

    def block(self) -> None:
        """A call, or what claims to be one, begins."""
        self._blocked = True
        self._held = ""

    def start(self, name: str, call_id: str | None = None) -> None:
        self.block()
        if name in self.tools and self._count != self.tools.max_calls:
            self._open = self._count
            self._count += 1
            self._events.append(ToolCallStart(self._open, name, call_id))

    def arguments(self, delta: str) -> None:
        if self._open is not None and delta:
            self._arguments.append(delta)

    def end(self, complete: bool) -> None:
        """Close the call that is open, if any (an unknown one is not)."""
        if self._open is not None:
            self._flush()
            self._events.append(ToolCallEnd(self._open, complete))
            self._open = None

    def _flush(self) -> None:
        if self._arguments and self._open is not None:
            self._events.append(ToolCallArguments(self._open, "".join(self._arguments)))
            self._arguments = []

    def finish(self) -> None:
        """No more text comes: white space at its end belongs to it after all."""
        self.end(False)
        if self._held:
            self._events.append(TextDelta(self._held))
            self._held = ""


Format = Callable[[Source, CallWriter], Generator[None, None, object]]
"""Reads a whole answer in one format. Returns when the source is closed and read."""


class ToolParser:
    """A format at work on one answer. See :class:`sglang.parsers.output.TextParser`."""

    def __init__(self, read: Format, tools: ToolSpecs) -> None:
        self._source = Source()
        self._writer = CallWriter(tools)
        self._reader = read(self._source, self._writer)
        next(self._reader, None)

    def push(self, text: str) -> list[ParserEvent]:
        feed(self._source, self._reader, text)
        return self._writer.take()

    def finish(self) -> list[ParserEvent]:
        close(self._source, self._reader)
        self._writer.finish()
        return self._writer.take()
