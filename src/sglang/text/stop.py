"""Stop strings and stop patterns in text that arrives in pieces.

:class:`StopMatcher` decides when a request ends (in the scheduler); :class:`StopTrimmer` cuts its text (in the
detokenizer).
"""

from __future__ import annotations

from collections.abc import Sequence

import re2

from sglang.ipc.errors import InvalidRequest

REGEX_WINDOW = 512
"""Characters a stop pattern can see: a match that is longer, or began earlier, is not found."""


def check_stop_regex(pattern: str) -> None:
    """Raise :class:`InvalidRequest` for a pattern that can't be matched in linear time, or stops at once."""
    try:
        compiled = _compile(pattern)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if error.args else error
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(error)
        raise InvalidRequest(
            f"stop_regex: the pattern {pattern!r} can't be used: {text}. Accepted: RE2 syntax, that is no look-around, "
            "no back-references and repetitions up to 1000",
            "stop_regex",
        ) from None
    if compiled.search("") is not None:
        raise InvalidRequest(
            f"stop_regex: the pattern {pattern!r} matches the empty text, so it would stop at once; "
            "write a pattern that needs at least one character",
            "stop_regex",
        )


def _compile(pattern: str) -> re2._Regexp[str]:
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


class StopMatcher:
    """Watches the text of one request for its stop strings and patterns; keeps only a bounded tail of it."""

    __slots__ = ("_keep", "_patterns", "_slid", "_stop", "_tail")

    def __init__(self, stop: Sequence[str], stop_regex: Sequence[str]) -> None:
        self._stop = tuple(stop)
        self._patterns = [(pattern, _compile(pattern)) for pattern in stop_regex]
        longest = max(map(len, stop), default=1) - 1
        self._keep = max(longest, REGEX_WINDOW) if stop_regex else longest
        self._tail = ""
        self._slid = False

    def push(self, text: str) -> str | None:
        """The stop string, else the pattern, that ``text`` completes (the first in the request's order); or None.

        Called once a token, so the answer does not depend on how steps are batched.
        """
        if not text:
            return None
        window = self._tail + text
        for stop in self._stop:
            if stop in window:
                return stop
        for pattern, compiled in self._patterns:
            # Once the beginning is gone, one character before the window remains, so that ^ and \b know of it.
            if compiled.search(window, int(self._slid)) is not None:
                return pattern
        keep = self._keep + 1 if self._patterns else self._keep
        if len(window) > keep:
            window = window[len(window) - keep :]
            self._slid = True
        self._tail = window
        return None


class StopTrimmer:
    """Lets text pass up to the stop string; holds back only what a stop string may still begin with."""

    __slots__ = ("_held", "_no_stop_trim", "_stop")

    def __init__(self, stop: Sequence[str], no_stop_trim: bool = False) -> None:
        self._stop = tuple(text for text in stop if text)
        self._no_stop_trim = no_stop_trim
        self._held = ""

    def push(self, text: str) -> str:
        """The part that no stop string can reach any more. From a whole stop string on, everything is held."""
        if not self._stop:
            return text
        self._held += text
        safe = min(self._reach(stop) for stop in self._stop)
        text, self._held = self._held[:safe], self._held[safe:]
        return text

    def finish(self, matched: str | int | None) -> str:
        """The rest, cut at the stop string that ended the request.

        ``matched``: that stop string (kept in the text with ``no_stop_trim``); anything else (a token id, a pattern,
        None) cuts nothing, for a stop token is no longer part of the text.
        """
        text, self._held = self._held, ""
        at = text.find(matched) if isinstance(matched, str) and matched in self._stop else -1
        if at < 0:
            return text
        return text[: at + len(str(matched))] if self._no_stop_trim else text[:at]

    def _reach(self, stop: str) -> int:
        """Where ``stop`` lies in the held text, or may begin at its end."""
        held = self._held
        at = held.find(stop)
        if at >= 0:
            return at
        at = held.find(stop[0], max(0, len(held) - len(stop) + 1))
        while at >= 0 and not stop.startswith(held[at:]):
            at = held.find(stop[0], at + 1)
        return at if at >= 0 else len(held)
