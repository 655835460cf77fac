"""Messages made of blocks → messages in neutral form. The order of a turn's blocks is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sglang.api.anthropic.blocks import (
    Block,
    ImageBlock,
    SearchResultBlock,
    TextBlock,
    ThinkingBlock,
    ToolReferenceBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from sglang.api.anthropic.protocol import Message
from sglang.ipc.errors import InvalidRequest

Plain = dict[str, Any]
Thoughts = Callable[[str], tuple[str | None, str]]
"""Thoughts of an earlier turn → (``reasoning_content``, text in front of the answer)."""


def neutral_messages(
    system: str | list[TextBlock] | None, messages: list[Message], *, inline_system: bool, thoughts: Thoughts
) -> list[Plain]:
    """All messages, the system prompt first.

    System messages in the list join the system prompt, unless ``inline_system``: then those behind the first turn
    stay where they are.
    """
    rules = [_joined(system)] if system else []
    turns: list[Plain] = []
    for message in messages:
        if message.role == "system":
            text = _system_text(message)
            if inline_system and turns:
                turns.append({"role": "system", "content": text})
            else:
                rules.append(text)
        elif message.role == "user":
            turns += _user_turn(message.content)
        else:
            turns.append(_assistant_turn(message.content, thoughts))
    head = [{"role": "system", "content": "\n".join(rules)}] if rules else []
    return head + turns


def _joined(text: str | list[TextBlock]) -> str:
    return text if isinstance(text, str) else "\n".join(block.text for block in text)


def _system_text(message: Message) -> str:
    if isinstance(message.content, str):
        return message.content
    if other := next((block.type for block in message.content if not isinstance(block, TextBlock)), None):
        raise InvalidRequest(f"messages: a system message takes text blocks only; got {other!r}", "messages")
    return "\n".join(block.text for block in message.content if isinstance(block, TextBlock))


def _user_turn(content: str | list[Block]) -> list[Plain]:
    """One turn of blocks becomes several messages where it holds tool results."""
    if isinstance(content, str):
        return [{"role": "user", "content": content}]
    found: list[Plain] = []
    parts: list[Plain] = []

    def close() -> None:
        if parts:
            found.append({"role": "user", "content": _content(parts)})
            parts.clear()

    for block in content:
        if isinstance(block, ToolResultBlock):
            close()
            found.append({"role": "tool", "tool_call_id": block.call_id, "content": _result(block)})
        elif isinstance(block, ToolUseBlock | ThinkingBlock):
            raise InvalidRequest(f"messages: a block of type {block.type!r} belongs to the assistant", "messages")
        else:
            parts.append(_part(block))
    close()
    return found or [{"role": "user", "content": ""}]


def _content(parts: list[Plain]) -> str | list[Plain]:
    """A lone text as plain text: that is what every template takes."""
    return parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else list(parts)


def _part(block: Any) -> Plain:
    if isinstance(block, ImageBlock):
        source = block.source
        url = source.url if source.type == "url" else f"data:{source.media_type};base64,{source.data}"
        return {"type": "image_url", "image_url": {"url": url}}
    if isinstance(block, SearchResultBlock):
        lines = [block.title, block.source, *(part.text for part in block.content)]
        return {"type": "text", "text": "\n".join(lines)}
    if isinstance(block, ToolReferenceBlock):
        return {"type": "text", "text": block.tool_name}
    return {"type": "text", "text": block.text}


def _result(block: ToolResultBlock) -> str | list[Plain]:
    if block.content is None or isinstance(block.content, str):
        return block.content or ""
    parts = [_part(item) for item in block.content]
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _assistant_turn(content: str | list[Block], thoughts: Thoughts) -> Plain:
    if isinstance(content, str):
        return {"role": "assistant", "content": content}
    text = "".join(block.text for block in content if isinstance(block, TextBlock))
    reasoning, lead = thoughts("".join(block.thinking for block in content if isinstance(block, ThinkingBlock)))
    calls = [_call(block) for block in content if isinstance(block, ToolUseBlock)]
    for block in content:
        if not isinstance(block, TextBlock | ThinkingBlock | ToolUseBlock):
            raise InvalidRequest(f"messages: a block of type {block.type!r} belongs to the user", "messages")
    message: Plain = {"role": "assistant", "content": lead + text}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = calls
    return message


def _call(block: ToolUseBlock) -> Plain:
    return {"id": block.id, "type": "function", "function": {"name": block.name, "arguments": block.input}}
