"""From what a format's reader finds to events, with the rules that all formats share."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from sglang.parsers.events import ParserEvent, TextDelta, ToolCallArguments, ToolCallEnd, ToolCallStart
from sglang.parsers.source import Source

MAX_NAME_CHARS = 256


@dataclass(frozen=True, slots=True)
class ToolSpecs:
    """The tools a request offers: name → JSON schema of the arguments."""

    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    forward_unknown: bool = False
    """Report calls of tools that were not offered instead of dropping them."""

    @classmethod
    def of(cls, tools: list[dict[str, Any]], forward_unknown: bool = False) -> ToolSpecs:
        """From OpenAI's form ``{"function": {"name", "parameters"}}``."""
        functions = [tool["function"] for tool in tools]
        return cls({item["name"]: item.get("parameters") or {} for item in functions}, forward_unknown)

    def __contains__(self, name: str) -> bool:
        return name in self.parameters or self.forward_unknown


class CallWriter:
    """Takes what readers find, in order; keeps the events until they are taken.

    - Text counts until the first call (or what claimed to be one); white space directly before it is dropped.
    - Calls of unknown tools are dropped, their arguments too.
    """

    def __init__(self, tools: ToolSpecs) -> None:
        self.tools = tools
        self._events: list[ParserEvent] = []
        self._held = ""
        self._blocked = False
        self._open: int | None = None
        self._count = 0

    def take(self) -> list[ParserEvent]:
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
        if name in self.tools:
            self._open = self._count
            self._count += 1
            self._events.append(ToolCallStart(self._open, name, call_id))

    def arguments(self, delta: str) -> None:
        if self._open is None or not delta:
            return
        last = self._events[-1] if self._events else None
        if isinstance(last, ToolCallArguments):
            self._events[-1] = ToolCallArguments(self._open, last.delta + delta)
        else:
            self._events.append(ToolCallArguments(self._open, delta))

    def end(self, complete: bool) -> None:
        """Close the call that is open, if any (an unknown one is not)."""
        if self._open is not None:
            self._events.append(ToolCallEnd(self._open, complete))
            self._open = None

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
        self._resume()

    def push(self, text: str) -> list[ParserEvent]:
        self._source.text += text
        self._resume()
        return self._writer.take()

    def finish(self) -> list[ParserEvent]:
        self._source.closed = True
        self._resume()
        self._writer.finish()
        return self._writer.take()

    def _resume(self) -> None:
        next(self._reader, None)
