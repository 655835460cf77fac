"""From the updates of a chat to output items and the events that tell of them. Whole answers are the same, unheard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sglang.api.chat.events import ChatUsage, Finished, Update
from sglang.api.openai.logprobs import chat_logprobs
from sglang.api.openai.responses.form import Event, ResponseForm
from sglang.api.openai.responses.items import CallItem, CustomCallItem, Item, Logprobs, MessageItem, ReasoningItem
from sglang.api.openai.responses.tools import custom_names
from sglang.parsers.events import (
    ParserEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
)

if TYPE_CHECKING:
    from sglang.text.tokenizer import Tokenizer

LOGPROBS = "message.output_text.logprobs"
ENCRYPTED = "reasoning.encrypted_content"

_STATUS = {"length": "incomplete", "abort": "failed"}


class Assembler:
    """Builds the output of one response; every method returns the events to send, in order."""

    def __init__(self, form: ResponseForm, tokenizer: Tokenizer | None, parses_tools: bool) -> None:
        self.form = form
        self.response = form.response("queued")
        """The newest state of the response object."""
        self._tokenizer = tokenizer if form.body.wants(LOGPROBS) else None
        self._parses_tools = parses_tools
        self._custom = custom_names(form.body)
        self._sequence = 0
        self._items: list[Item] = []
        self._opened = 0
        self._current: Item | None = None
        self._waiting: Logprobs = []
        """Of tokens whose text the parsers hold back."""
        self._end: Finished | None = None

    def queue(self) -> list[Event]:
        return self._numbered([self._state("created"), self._state("queued")])

    def start(self, created: bool = True) -> list[Event]:
        self.response = self.form.response("in_progress")
        states = [self._state("created")] if created else []
        return self._numbered([*states, self._state("in_progress")])

    def update(self, update: Update) -> list[Event]:
        self._keep_logprobs(update)
        events: list[Event] = []
        for event in update.events:
            events += self._take(event)
        if update.finished is not None:
            self._end = update.finished
        return self._numbered(events)

    def finish(self, usage: ChatUsage, error: str | None, cancelled: bool) -> list[Event]:
        """The end. ``error`` is what an aborted answer gives as its reason."""
        end = self._end or Finished("abort")
        status = "cancelled" if cancelled else _STATUS.get(end.reason, "completed")
        events: list[Event] = []
        if self._waiting and isinstance(self._current, MessageItem):
            events += self._text("")  # tokens without text, such as the one that ends an answer
        events += self._close()
        if not self._items and status in ("completed", "incomplete"):
            events += self._message().open() + self._close()
        problem = _failure(error or "the request was aborted") if status == "failed" else None
        self.response = self.form.response(status, [item.value() for item in self._items], usage, problem)
        return self._numbered([*events, self._state("failed" if status == "cancelled" else status)])

    def _numbered(self, events: list[Event]) -> list[Event]:
        for event in events:
            event["sequence_number"] = self._sequence
            self._sequence += 1
        return events

    def _state(self, state: str) -> Event:
        return {"type": f"response.{state}", "response": self.response}

    def _take(self, event: ParserEvent) -> list[Event]:
        if isinstance(event, TextDelta):
            return self._text(event.text)
        self._waiting = []  # these tokens became no text of a message
        if isinstance(event, ReasoningDelta):
            return self._thought(event.text)
        if isinstance(event, ToolCallStart):
            return self._call(event)
        if isinstance(event, ToolCallArguments) and isinstance(self._current, CallItem | CustomCallItem):
            return self._current.add(event.delta)
        if isinstance(event, ToolCallEnd):
            return self._end_call(event.complete)
        return []

    def _text(self, text: str) -> list[Event]:
        logprobs, self._waiting = self._waiting, []
        if isinstance(self._current, MessageItem):
            return self._current.add(text, logprobs)
        events = self._close()
        message = self._message()
        return [*events, *message.open(), *message.add(text, logprobs)]

    def _message(self) -> MessageItem:
        message = MessageItem(self._place(), self._parses_tools, self._tokenizer is not None)
        self._current = message
        return message

    def _thought(self, text: str) -> list[Event]:
        if isinstance(self._current, ReasoningItem):
            return self._current.add(text)
        events = self._close()
        asked = self.form.body.reasoning
        with_summary = asked is not None and asked.summary is not None
        item = ReasoningItem(self._place(), with_summary, self.form.body.wants(ENCRYPTED))
        self._current = item
        return [*events, *item.open(), *item.add(text)]

    def _call(self, event: ToolCallStart) -> list[Event]:
        events = self._close("commentary")
        kind = CustomCallItem if event.name in self._custom else CallItem
        item = kind(self._place(), event.name, event.id or "")
        self._current = item
        return [*events, *item.open()]

    def _end_call(self, complete: bool) -> list[Event]:
        """A call that was cut or malformed is shown to its end, but is no part of the finished answer."""
        item, self._current = self._current, None
        if not isinstance(item, CallItem | CustomCallItem):
            return []
        events = item.close(complete)
        if complete:
            self._items.append(item)
        return events

    def _close(self, phase: str = "final_answer") -> list[Event]:
        item, self._current = self._current, None
        if isinstance(item, CallItem | CustomCallItem):
            return item.close(False)
        if item is None:
            return []
        self._items.append(item)
        if isinstance(item, MessageItem):
            return item.close(phase)
        return item.close() if isinstance(item, ReasoningItem) else []

    def _place(self) -> int:
        self._opened += 1
        return self._opened - 1

    def _keep_logprobs(self, update: Update) -> None:
        if self._tokenizer is not None and update.logprobs is not None:
            entries: Any = chat_logprobs(self._tokenizer, update.logprobs, self.form.body.top_logprobs)["content"]
            self._waiting += entries


def _failure(message: str) -> dict[str, str]:
    return {"code": "server_error", "message": message}
