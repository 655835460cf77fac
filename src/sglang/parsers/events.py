"""The news that parsers tell, the same for all API families.

For one choice the events of a tool call come as ``ToolCallStart``, any number of ``ToolCallArguments``,
``ToolCallEnd``, and calls never overlap. Joined, the texts of each kind do not depend on how the input was cut.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of the thinking before the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """A call of a known tool begins. ``index`` counts the calls of the choice from 0."""

    index: int
    name: str
    id: str | None = None
    """Only where the model's format carries one; the chat core fills it in otherwise."""


@dataclass(frozen=True, slots=True)
class ToolCallArguments:
    """More of the JSON text of a call's arguments."""

    index: int
    delta: str


@dataclass(frozen=True, slots=True)
class ToolCallEnd:
    """The call is over. ``complete``: its arguments are one whole JSON object; else they were cut or malformed."""

    index: int
    complete: bool


ParserEvent = TextDelta | ReasoningDelta | ToolCallStart | ToolCallArguments | ToolCallEnd
