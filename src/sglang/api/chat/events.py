"""What a running chat tells its family: updates, a whole answer, and the counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sglang.ipc.messages import LogprobDelta
from sglang.parsers.events import ParserEvent

if TYPE_CHECKING:
    from sglang.processes.tokenizer.streams import RequestStream

FinishReason = Literal["stop", "length", "tool_calls", "abort"]


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of one choice.

    ``reason`` is "tool_calls" when the model stopped by itself after calling a tool; a cut by length stays "length".
    ``matched`` is what stopped it: a token id, a stop string or pattern, or None.
    """

    reason: FinishReason
    matched: int | str | None = None


@dataclass(frozen=True, slots=True)
class ChatUsage:
    """Token counts. A prompt counts once however many choices it has."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    reasoning_tokens: int


@dataclass(frozen=True, slots=True)
class Update:
    """What one step brought to one choice; ``events`` may be empty while the parsers hold text back.

    ``logprobs``: one entry for each token of the step, whatever became of the token's text. The last update of a
    choice carries ``finished``.
    """

    choice: int
    events: list[ParserEvent]
    logprobs: LogprobDelta | None = None
    finished: Finished | None = None


@dataclass(slots=True)
class ToolCall:
    """A call that the model asks for; ``arguments`` is the JSON text of an object."""

    index: int
    id: str
    name: str
    arguments: str


@dataclass(slots=True)
class ChatChoice:
    """One whole answer. ``reasoning`` is None where the model had no thinking part."""

    index: int
    text: str
    reasoning: str | None
    finished: Finished
    stream: RequestStream
    """Ids, logprobs, counts and meta_info."""
    tool_calls: list[ToolCall] = field(default_factory=list)


@dataclass(slots=True)
class ChatAnswer:
    choices: list[ChatChoice]
    usage: ChatUsage
