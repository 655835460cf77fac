"""Text that arrives in pieces, and small readers over it.

A reader is a generator: it yields where it needs more text and returns its result. Decisions are taken only when no
later text can change them, so the result does not depend on how the text was cut.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

T = TypeVar("T")
Reader = Generator[None, None, T]
Emit = Callable[[str], object]


SPACE = " \t\r\n"


class Source:
    """Text not read yet. ``closed``: no more will come."""

    __slots__ = ("closed", "text")

    def __init__(self, text: str = "", closed: bool = False) -> None:
        self.text = text
        self.closed = closed

    def take(self, count: int) -> str:
        taken, self.text = self.text[:count], self.text[count:]
        return taken

    def unread(self, text: str) -> None:
        self.text = text + self.text


STEP = 4096
"""Characters that a reader gets at once: what it takes is copied off the front, so the rest has to be short."""


def feed(src: Source, reader: Reader[object], text: str) -> None:
    """Let the reader read on."""
    for at in range(0, len(text), STEP):
        src.text += text[at : at + STEP]
        next(reader, None)


def close(src: Source, reader: Reader[object]) -> None:
    """Let the reader read to the end."""
    src.closed = True
    next(reader, None)


def ignore(text: str) -> None:
    """An :data:`Emit` for text that nobody wants."""


def peek(src: Source) -> Reader[str]:
    """The next character, unread; empty at the end."""
    while not src.text and not src.closed:
        yield
    return src.text[:1]


def begins_with(src: Source, markers: Sequence[str]) -> Reader[str | None]:
    """Which marker the unread text begins with (it stays unread)."""
    while True:
        text = src.text
        for marker in markers:
            if text.startswith(marker):
                return marker
        if src.closed or not any(marker.startswith(text) for marker in markers):
            return None
        yield


def accept(src: Source, marker: str) -> Reader[bool]:
    """Read the marker if the text begins with it."""
    if (yield from begins_with(src, (marker,))) is None:
        return False
    src.take(len(marker))
    return True


def space(src: Source, emit: Emit = ignore) -> Reader[None]:
    """Read white space."""
    while True:
        rest = src.text.lstrip(SPACE)
        if len(rest) < len(src.text):
            emit(src.take(len(src.text) - len(rest)))
        if rest or src.closed:
            return
        yield


def until(src: Source, markers: Sequence[str], emit: Emit) -> Reader[str | None]:
    """Read up to and including the first marker; emit what stands before it as soon as it is certain.

    Returns the marker, None at the end of the text. Only text that may become a marker waits.
    """
    while True:
        text = src.text
        found = [(at, marker) for marker in markers if (at := text.find(marker)) >= 0]
        if found:
            at, marker = min(found)
            if at:
                emit(text[:at])
            src.text = text[at + len(marker) :]
            return marker
        certain = len(text) if src.closed else len(text) - held_back(text, markers)
        if certain:
            emit(src.take(certain))
        if src.closed:
            return None
        yield


def read_until(src: Source, markers: Sequence[str], limit: int) -> Reader[tuple[str, str | None]]:
    """The text before the first marker, and the marker (read too).

    None instead of a marker: none begins within the next ``limit`` characters; so many, or all, are read.
    """
    enough = limit + max(map(len, markers))
    while True:
        text = src.text
        found = [(at, marker) for marker in markers if 0 <= (at := text.find(marker)) <= limit]
        if found:
            at, marker = min(found)
            src.text = text[at + len(marker) :]
            return text[:at], marker
        if src.closed or len(text) >= enough:
            return src.take(limit), None
        yield


def held_back(text: str, markers: Sequence[str]) -> int:
    """Length of the longest end of ``text`` that begins a marker without being one."""
    longest = 0
    for marker in markers:
        for size in range(min(len(marker) - 1, len(text)), longest, -1):
            if text.endswith(marker[:size]):
                longest = size
                break
    return longest


def lookahead(src: Source, reader: Callable[[Source], Reader[T]]) -> Reader[T]:
    """The result of a reader over the unread text, which stays unread. For readers that decide soon: each new piece
    of text starts it again."""
    while True:
        attempt = reader(Source(src.text, src.closed))
        try:
            next(attempt)
        except StopIteration as end:
            result: T = end.value
            return result
        yield
