"""Counting the tokens of the thinking part, exactly, however many tokens a step brings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sglang.parsers.reasoning import ReasoningFormat


class ReasoningCounter:
    """Follows one answer by the bytes of its tokens. The tokens of the markers count as thinking.

    ``inside``: thinking was opened before the first token.
    """

    def __init__(self, form: ReasoningFormat, token_bytes: Callable[[int], bytes], inside: bool) -> None:
        self.count = 0
        self._token_bytes = token_bytes
        self._start = form.start.encode()
        self._ends = [marker.encode() for marker in (form.end, *form.interrupts)]
        self._reach = max(map(len, self._ends))
        self._tail = b""
        self._pending = 0
        self._state = "inside" if inside else "start"

    def add(self, ids: Sequence[int]) -> None:
        """The next tokens of the answer."""
        for token in ids:
            if self._state == "over":
                return
            self._tail += self._token_bytes(token)
            self._pending += 1
            if self._state == "start":
                self._look_for_start()
            if self._state == "inside":
                self._follow()

    def _look_for_start(self) -> None:
        text = self._tail.lstrip()
        if text.startswith(self._start):
            self._state = "inside"
            self._tail = text[len(self._start) :]
        elif not self._start.startswith(text):
            self._state = "over"

    def _follow(self) -> None:
        self.count += self._pending
        self._pending = 0
        if any(marker in self._tail for marker in self._ends):
            self._state = "over"
        self._tail = self._tail[-self._reach :]
