"""The chain behind one choice: text → thoughts | the rest, the rest → tool calls | the answer."""

from __future__ import annotations

from typing import Protocol

from sglang.parsers.events import ParserEvent, TextDelta


class TextParser(Protocol):
    """Turns text that arrives in pieces into events. Joined, the events do not depend on the pieces."""

    def push(self, text: str) -> list[ParserEvent]:
        """What is certain now. Text that may yet become a marker is held back, and no more than that."""
        ...

    def finish(self) -> list[ParserEvent]:
        """The rest, once no text follows."""
        ...


class PlainText:
    """No parser: everything is the answer."""

    def push(self, text: str) -> list[ParserEvent]:
        return [TextDelta(text)] if text else []

    def finish(self) -> list[ParserEvent]:
        return []


class OutputParser:
    """A reasoning parser whose text feeds a tool-call parser; either may be absent."""

    def __init__(self, reasoning: TextParser | None = None, tools: TextParser | None = None) -> None:
        self._reasoning = reasoning
        self._tools = tools or PlainText()

    def push(self, text: str) -> list[ParserEvent]:
        if self._reasoning is None:
            return self._tools.push(text)
        return self._through(self._reasoning.push(text))

    def finish(self) -> list[ParserEvent]:
        rest = self._through(self._reasoning.finish()) if self._reasoning is not None else []
        return rest + self._tools.finish()

    def _through(self, events: list[ParserEvent]) -> list[ParserEvent]:
        found: list[ParserEvent] = []
        for event in events:
            found += self._tools.push(event.text) if isinstance(event, TextDelta) else [event]
        return found
