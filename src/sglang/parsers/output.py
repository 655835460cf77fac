"""The chain behind one choice: text → thoughts | the rest, the rest → tool calls | the answer."""

from __future__ import annotations

from typing import Protocol

from sglang.parsers.events import ParserEvent, ReasoningDelta, TextDelta


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
    """A reasoning parser whose text feeds a tool-call parser; either may be absent.

    ``inline_reasoning``: thoughts become text again, past the tool-call parser: a call that a model only thinks about
    is none. ``stream_reasoning``: thoughts come while they are thought; else in one piece, when they end.
    """

    def __init__(
        self,
        reasoning: TextParser | None = None,
        tools: TextParser | None = None,
        *,
        inline_reasoning: bool = False,
        stream_reasoning: bool = True,
    ) -> None:
        self._reasoning = reasoning
        self._tools = tools or PlainText()
        self._inline = inline_reasoning
        self._stream = stream_reasoning
        self._kept: list[str] = []

    def push(self, text: str) -> list[ParserEvent]:
        if self._reasoning is None:
            return self._tools.push(text)
        return self._through(self._reasoning.push(text))

    def finish(self) -> list[ParserEvent]:
        rest = self._through(self._reasoning.finish()) if self._reasoning is not None else []
        return rest + self._release() + self._tools.finish()

    def _through(self, events: list[ParserEvent]) -> list[ParserEvent]:
        found: list[ParserEvent] = []
        for event in events:
            if isinstance(event, ReasoningDelta):
                if self._stream:
                    found.append(self._thought(event.text))
                else:
                    self._kept.append(event.text)
            else:
                found += self._release()
                found += self._tools.push(event.text) if isinstance(event, TextDelta) else [event]
        return found

    def _release(self) -> list[ParserEvent]:
        if not self._kept:
            return []
        text = "".join(self._kept)
        self._kept = []
        return [self._thought(text)]

    def _thought(self, text: str) -> ParserEvent:
        return TextDelta(text) if self._inline else ReasoningDelta(text)
