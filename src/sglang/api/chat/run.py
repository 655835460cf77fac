"""A running chat: the group's chunks become updates, or one whole answer."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import TYPE_CHECKING

from sglang.api.chat.events import ChatAnswer, ChatChoice, ChatUsage, Finished, ToolCall, Update
from sglang.api.chat.parsing import ChatPlan
from sglang.parsers.events import (
    ParserEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
)

if TYPE_CHECKING:
    from sglang.processes.tokenizer.streams import Chunk, RequestGroup, RequestStream


class ChatRun:
    """One submitted chat with one consumer: take :meth:`updates`, :meth:`events` or :meth:`answer`, once.

    ``group.streams`` holds ids, counts and logprobs of every choice, in order.
    """

    def __init__(self, plan: ChatPlan, group: RequestGroup) -> None:
        self.chat = plan.chat
        self.group = group
        self.parses_tools = plan.specs is not None
        """Whether tool calls are looked for in the text."""
        self._parsers = [plan.parser() for _ in group.streams]
        self._counters = [plan.counter() for _ in group.streams]
        self._called = [False] * len(group.streams)

    async def updates(self) -> AsyncGenerator[Update, None]:
        """News of all choices, in the order of arrival. Leaving early aborts what still runs.

        Raises InvalidRequest or RequestAborted where the scheduler ended a choice with an HTTP status.
        """
        finished = False
        try:
            async for stream, chunk in self.group.events():
                if chunk.finish_reason is not None:
                    stream.raise_for_abort()
                yield self._update(stream, chunk)
            finished = True
        finally:
            if not finished:
                self.group.abort()

    async def events(self) -> AsyncGenerator[ParserEvent | Finished, None]:
        """The events of a chat with one choice, one by one."""
        async for update in self.updates():
            for event in update.events:
                yield event
            if update.finished is not None:
                yield update.finished

    async def answer(self) -> ChatAnswer:
        """Wait for the end and put everything together."""
        builders = [_Builder() for _ in self.group.streams]
        async for update in self.updates():
            builder = builders[update.choice]
            for event in update.events:
                builder.add(event)
            if update.finished is not None:
                builder.finished = update.finished
        choices = [builder.choice(stream) for builder, stream in zip(builders, self.group.streams, strict=True)]
        return ChatAnswer(choices, self.usage())

    def usage(self) -> ChatUsage:
        """Counts so far."""
        streams = self.group.streams
        prompts = streams[:1]  # all choices share one prompt
        return ChatUsage(
            prompt_tokens=sum(stream.prompt_tokens for stream in prompts),
            completion_tokens=sum(stream.completion_tokens for stream in streams),
            cached_tokens=sum(stream.cached_tokens for stream in prompts),
            reasoning_tokens=sum(counter.count for counter in self._counters if counter is not None),
        )

    def _update(self, stream: RequestStream, chunk: Chunk) -> Update:
        parser = self._parsers[stream.index]
        counter = self._counters[stream.index]
        if counter is not None:
            counter.add(chunk.output_ids)
        events = parser.push(chunk.text)
        if chunk.finish_reason is None:
            return Update(stream.index, self._named(stream.index, events), chunk.logprobs)
        events = self._named(stream.index, events + parser.finish())
        return Update(stream.index, events, chunk.logprobs, self._finish(stream))

    def _named(self, choice: int, events: list[ParserEvent]) -> list[ParserEvent]:
        """Every call gets an id."""
        for at, event in enumerate(events):
            if isinstance(event, ToolCallStart):
                self._called[choice] = True
                if event.id is None:
                    events[at] = replace(event, id=f"call_{uuid.uuid4().hex[:24]}")
        return events

    def _finish(self, stream: RequestStream) -> Finished:
        reason = stream.finish_reason or {}
        kind = reason.get("type", "stop")
        if kind == "stop" and self._called[stream.index]:
            kind = "tool_calls"
        return Finished(kind, reason.get("matched"))


class _Builder:
    """Collects the events of one choice. Calls that were cut or malformed are left out: half a JSON text helps
    nobody who waits for the whole."""

    def __init__(self) -> None:
        self.finished = Finished("stop")
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[ToolCall] = []

    def add(self, event: ParserEvent) -> None:
        if isinstance(event, TextDelta):
            self._text.append(event.text)
        elif isinstance(event, ReasoningDelta):
            self._reasoning.append(event.text)
        elif isinstance(event, ToolCallStart):
            self._calls.append(ToolCall(event.index, event.id or "", event.name, ""))
        elif isinstance(event, ToolCallArguments):
            self._calls[-1].arguments += event.delta
        elif isinstance(event, ToolCallEnd) and not event.complete:
            self._calls.pop()

    def choice(self, stream: RequestStream) -> ChatChoice:
        finished = self.finished
        if finished.reason == "tool_calls":
            finished = Finished("tool_calls") if self._calls else Finished("stop", finished.matched)
        for index, call in enumerate(self._calls):
            call.index = index
        reasoning = "".join(self._reasoning) if self._reasoning else None
        return ChatChoice(stream.index, "".join(self._text), reasoning, finished, stream, self._calls)
