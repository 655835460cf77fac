"""Feeding parsers in pieces and putting their events together, with the order of events checked on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from sglang.parsers.events import ReasoningDelta, TextDelta, ToolCallArguments, ToolCallEnd, ToolCallStart
from sglang.parsers.output import TextParser

Make = Callable[[], TextParser]


@dataclass
class Result:
    text: str = ""
    reasoning: str = ""
    calls: list[list[object]] = field(default_factory=list)
    """[name, id, arguments, complete]"""


def feed(parser: TextParser, pieces: Iterable[str]) -> Result:
    result = Result()
    open_index: int | None = None
    for events in (*map(parser.push, pieces), parser.finish()):
        for event in events:
            if isinstance(event, TextDelta):
                assert event.text
                assert open_index is None
                result.text += event.text
            elif isinstance(event, ReasoningDelta):
                assert event.text
                result.reasoning += event.text
            elif isinstance(event, ToolCallStart):
                assert open_index is None
                assert event.index == len(result.calls)
                open_index = event.index
                result.calls.append([event.name, event.id, "", None])
            elif isinstance(event, ToolCallArguments):
                assert event.index == open_index
                assert event.delta
                result.calls[-1][2] += event.delta  # type: ignore[operator]
            elif isinstance(event, ToolCallEnd):
                assert event.index == open_index
                open_index = None
                result.calls[-1][3] = event.complete
    assert open_index is None
    return result


def whole(make: Make, text: str) -> Result:
    return feed(make(), [text])


def by_character(make: Make, text: str) -> Result:
    return feed(make(), text)


def pairs(text: str) -> Iterator[tuple[str, str, str]]:
    """The text cut at every pair of boundaries."""
    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1):
            yield text[:first], text[first:second], text[second:]


def same_at_every_cut(make: Make, text: str) -> None:
    expected = whole(make, text)
    for pieces in pairs(text):
        assert feed(make(), pieces) == expected, pieces
    assert by_character(make, text) == expected


def same_by_character(make: Make, text: str) -> None:
    assert by_character(make, text) == whole(make, text), text
