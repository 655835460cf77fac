"""Input items → chat messages."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from sglang.ipc.errors import InvalidRequest

Item = dict[str, Any]
Message = dict[str, Any]

ROLES = ("user", "assistant", "system", "developer")
TYPES = (
    "message", "function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output", "reasoning",
)  # fmt: skip
CUSTOM_INPUT = "input"
"""The one argument of the function that stands for a custom tool."""

_TEXT_PARTS = frozenset({"input_text", "output_text", "text"})


def input_items(given: str | list[Item]) -> list[Item]:
    """The caller's input as a list of items; a text is a message of the user."""
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    if not given:
        raise InvalidRequest("input: must not be empty", "input")
    return given


def to_messages(instructions: str | None, items: list[Item]) -> list[Message]:
    """Messages for the chat core, in order. Raises InvalidRequest naming the item."""
    conversation = _Conversation()
    if instructions is not None:
        conversation.message("system", instructions)
    for index, item in enumerate(items):
        _Reader(f"input[{index}]", item).add_to(conversation)
    return conversation.messages


def encode_reasoning(text: str) -> str:
    """The ``encrypted_content`` of a reasoning item: a form that comes back unharmed, not a secret."""
    return base64.b64encode(text.encode()).decode()


class _Conversation:
    """Puts the items of one turn of the assistant (thoughts, text, calls) into one message."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._names: dict[str, str] = {}
        self._thoughts: list[str] = []

    def message(self, role: str, content: Any) -> None:
        message = {"role": role, "content": content}
        if role == "assistant":
            self._think(message)
        self._thoughts.clear()
        self.messages.append(message)

    def reasoning(self, text: str) -> None:
        self._thoughts.append(text)

    def call(self, call_id: str, name: str, arguments: Any) -> None:
        self._names[call_id] = name
        last = self.messages[-1] if self.messages else None
        if last is None or last["role"] != "assistant" or self._thoughts:
            last = {"role": "assistant", "content": None}
            self._think(last)
            self._thoughts.clear()
            self.messages.append(last)
        function = {"name": name, "arguments": arguments}
        last.setdefault("tool_calls", []).append({"id": call_id, "type": "function", "function": function})

    def output(self, call_id: str, content: Any) -> None:
        message = {"role": "tool", "tool_call_id": call_id, "content": content}
        if call_id in self._names:
            message["name"] = self._names[call_id]
        self.messages.append(message)

    def _think(self, message: Message) -> None:
        if self._thoughts:
            message["reasoning_content"] = "".join(self._thoughts)


class _Reader:
    """One item; refusals say where it stands."""

    def __init__(self, where: str, item: Item) -> None:
        self._where = where
        self._item = item

    def add_to(self, conversation: _Conversation) -> None:
        kind = self._item.get("type", "message")
        if kind == "message":
            self._add_message(conversation)
        elif kind == "function_call":
            conversation.call(self._text("call_id"), self._text("name"), self._text("arguments"))
        elif kind == "custom_tool_call":
            conversation.call(self._text("call_id"), self._text("name"), {CUSTOM_INPUT: self._text("input")})
        elif kind in ("function_call_output", "custom_tool_call_output"):
            conversation.output(self._text("call_id"), self._content(self._item.get("output"), "output"))
        elif kind == "reasoning":
            conversation.reasoning(self._thoughts())
        else:
            raise self._refusal(
                "type", f"must be one of {', '.join((*TYPES, 'item_reference'))}; got {str(kind)[:40]!r}"
            )

    def _add_message(self, conversation: _Conversation) -> None:
        role = self._item.get("role")
        if role not in ROLES:
            raise self._refusal("role", f"must be one of {', '.join(ROLES)}; got {str(role)[:40]!r}")
        conversation.message(role, self._content(self._item.get("content"), "content"))

    def _text(self, field: str) -> str:
        value = self._item.get(field)
        if not isinstance(value, str):
            raise self._refusal(field, "must be a string")
        return value

    def _content(self, content: Any, field: str) -> Any:
        if isinstance(content, str):
            return content
        if not isinstance(content, list):
            raise self._refusal(field, "must be a string or a list of parts")
        return [self._part(part, f"{field}[{at}]") for at, part in enumerate(content)]

    def _part(self, part: Any, field: str) -> dict[str, Any]:
        kind = str(part.get("type")) if isinstance(part, dict) else None
        text = part.get("refusal" if kind == "refusal" else "text") if isinstance(part, dict) else None
        if kind in _TEXT_PARTS or kind == "refusal":
            if not isinstance(text, str):
                raise self._refusal(field, f"a part of type {kind!r} needs its text as a string")
            return {"type": "text", "text": text}
        if kind == "input_image":
            return {"type": "image_url", "image_url": {"url": part.get("image_url"), "detail": part.get("detail")}}
        raise self._refusal(field, f"must be a part of type input_text, output_text or refusal; got {str(kind)[:40]!r}")

    def _thoughts(self) -> str:
        content = self._item.get("content")
        if content:
            return "".join(self._part_text(part) for part in self._list("content"))
        if (encoded := self._item.get("encrypted_content")) is not None:
            return self._decoded(encoded)
        return "".join(self._part_text(part) for part in self._list("summary"))

    def _list(self, field: str) -> list[Any]:
        value = self._item.get(field) or []
        if not isinstance(value, list):
            raise self._refusal(field, "must be a list")
        return value

    def _part_text(self, part: Any) -> str:
        text = part.get("text") if isinstance(part, dict) else None
        if not isinstance(text, str):
            raise self._refusal("content", "the parts of a reasoning item need their text as a string")
        return text

    def _decoded(self, encoded: Any) -> str:
        try:
            return base64.b64decode(encoded, validate=True).decode()
        except (TypeError, binascii.Error, ValueError):
            raise self._refusal("encrypted_content", "does not come from this server") from None

    def _refusal(self, field: str, words: str) -> InvalidRequest:
        return InvalidRequest(f"{self._where}.{field}: {words}", "input")
