"""Output items while they grow: each says what to send when it opens, grows and closes, and what it has become."""

from __future__ import annotations

import json
import uuid
from typing import Any

from sglang.api.openai.responses.form import Event
from sglang.api.openai.responses.input import CUSTOM_INPUT, encode_reasoning

Logprobs = list[dict[str, Any]]


class Item:
    """Base: the place of an item in the output, and the events around any item."""

    def __init__(self, prefix: str, index: int) -> None:
        self.id = f"{prefix}_{uuid.uuid4().hex}"
        self._index = index

    def value(self) -> dict[str, Any]:
        """The finished item."""
        raise NotImplementedError

    def _at(self, kind: str, **rest: Any) -> Event:
        return {"type": f"response.{kind}", "item_id": self.id, "output_index": self._index, **rest}

    def _added(self, item: dict[str, Any]) -> Event:
        return {"type": "response.output_item.added", "output_index": self._index, "item": item}

    def _done(self, item: dict[str, Any]) -> Event:
        return {"type": "response.output_item.done", "output_index": self._index, "item": item}


class MessageItem(Item):
    """Text of the answer.

    A held message says nothing until :meth:`close`: whether it leads to a tool call belongs to its first event.
    """

    def __init__(self, index: int, held: bool, with_logprobs: bool) -> None:
        super().__init__("msg", index)
        self._held = held
        self._phase = "final_answer"
        self._pieces: list[tuple[str, Logprobs]] = []
        self._with_logprobs = with_logprobs

    def open(self) -> list[Event]:
        return [] if self._held else self._opening()

    def add(self, text: str, logprobs: Logprobs) -> list[Event]:
        self._pieces.append((text, logprobs))
        return [] if self._held else [self._delta(text, logprobs)]

    def close(self, phase: str) -> list[Event]:
        self._phase = phase
        events = []
        if self._held:
            events = self._opening() + [self._delta(text, logprobs) for text, logprobs in self._pieces]
        part = self._part()
        done = self._at("output_text.done", content_index=0, text=part["text"], logprobs=part["logprobs"] or [])
        return [*events, done, self._at("content_part.done", content_index=0, part=part), self._done(self.value())]

    def value(self) -> dict[str, Any]:
        return self._value("completed", [self._part()])

    def _value(self, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
        kind = {"role": "assistant", "status": status, "type": "message", "phase": self._phase}
        return {"id": self.id, "content": content, **kind}

    def _part(self) -> dict[str, Any]:
        logprobs = [entry for _, entries in self._pieces for entry in entries]
        return {
            "annotations": [],
            "text": "".join(text for text, _ in self._pieces),
            "type": "output_text",
            "logprobs": logprobs if self._with_logprobs else None,
        }

    def _opening(self) -> list[Event]:
        empty: dict[str, Any] = {
            "annotations": [],
            "text": "",
            "type": "output_text",
            "logprobs": [] if self._with_logprobs else None,
        }
        return [
            self._added(self._value("in_progress", [])),
            self._at("content_part.added", content_index=0, part=empty),
        ]

    def _delta(self, text: str, logprobs: Logprobs) -> Event:
        return self._at("output_text.delta", content_index=0, delta=text, logprobs=logprobs)


class ReasoningItem(Item):
    """Thoughts. Their summary, where one is asked for, is the thoughts themselves: nobody here writes shorter ones."""

    def __init__(self, index: int, with_summary: bool, encoded: bool) -> None:
        super().__init__("rs", index)
        self._with_summary = with_summary
        self._encoded = encoded
        self._texts: list[str] = []

    def open(self) -> list[Event]:
        item = {"id": self.id, "type": "reasoning", "summary": [], "content": [], "status": "in_progress"}
        part = {"type": "reasoning_text", "text": ""}
        events = [self._added(item), self._at("content_part.added", content_index=0, part=part)]
        if self._with_summary:
            part = {"type": "summary_text", "text": ""}
            events.append(self._at("reasoning_summary_part.added", summary_index=0, part=part))
        return events

    def add(self, text: str) -> list[Event]:
        self._texts.append(text)
        events = [self._at("reasoning_text.delta", content_index=0, delta=text)]
        if self._with_summary:
            events.append(self._at("reasoning_summary_text.delta", summary_index=0, delta=text))
        return events

    def close(self) -> list[Event]:
        text = "".join(self._texts)
        part = {"type": "reasoning_text", "text": text}
        events = [
            self._at("reasoning_text.done", content_index=0, text=text),
            self._at("content_part.done", content_index=0, part=part),
        ]
        if self._with_summary:
            part = {"type": "summary_text", "text": text}
            events.append(self._at("reasoning_summary_text.done", summary_index=0, text=text))
            events.append(self._at("reasoning_summary_part.done", summary_index=0, part=part))
        return [*events, self._done(self.value())]

    def value(self) -> dict[str, Any]:
        text = "".join(self._texts)
        item: dict[str, Any] = {
            "id": self.id,
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": text}] if self._with_summary else [],
            "content": [{"type": "reasoning_text", "text": text}],
            "status": "completed",
        }
        if self._encoded:
            item["encrypted_content"] = encode_reasoning(text)
        return item


class CallItem(Item):
    """A call of a function."""

    def __init__(self, index: int, name: str, call_id: str) -> None:
        super().__init__("fc", index)
        self._name = name
        self._call_id = call_id
        self._arguments: list[str] = []

    def open(self) -> list[Event]:
        return [self._added(self._value("in_progress"))]

    def add(self, delta: str) -> list[Event]:
        self._arguments.append(delta)
        return [self._at("function_call_arguments.delta", delta=delta)]

    def close(self, complete: bool) -> list[Event]:
        done = self._at("function_call_arguments.done", name=self._name, arguments="".join(self._arguments))
        return [done, self._done(self._value("completed" if complete else "incomplete"))]

    def value(self) -> dict[str, Any]:
        return self._value("completed")

    def _value(self, status: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": "function_call",
            "call_id": self._call_id,
            "name": self._name,
            "arguments": "".join(self._arguments),
            "status": status,
        }


class CustomCallItem(Item):
    """A call of a custom tool: its text lies inside the arguments and is known when those are whole."""

    def __init__(self, index: int, name: str, call_id: str) -> None:
        super().__init__("ctc", index)
        self._name = name
        self._call_id = call_id
        self._arguments: list[str] = []
        self._input = ""

    def open(self) -> list[Event]:
        return [self._added(self._value("in_progress"))]

    def add(self, delta: str) -> list[Event]:
        self._arguments.append(delta)
        return []

    def close(self, complete: bool) -> list[Event]:
        if complete:
            given = json.loads("".join(self._arguments)).get(CUSTOM_INPUT, "")
            self._input = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        return [
            self._at("custom_tool_call_input.delta", delta=self._input),
            self._at("custom_tool_call_input.done", input=self._input),
            self._done(self._value("completed" if complete else "incomplete")),
        ]

    def value(self) -> dict[str, Any]:
        return self._value("completed")

    def _value(self, status: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": "custom_tool_call",
            "call_id": self._call_id,
            "name": self._name,
            "input": self._input,
            "status": status,
        }
