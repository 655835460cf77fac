"""How a whole answer looks, and the parts that streams share with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sglang.api.anthropic.protocol import MessagesRequest
from sglang.api.chat.events import ChatAnswer, ChatUsage, Finished, ToolCall

if TYPE_CHECKING:
    from sglang.config.server_args import ServerArgs

_REASONS = {"length": "max_tokens", "tool_calls": "tool_use"}


class MessageForm:
    """How the answer to one request looks."""

    def __init__(self, body: MessagesRequest, server: ServerArgs) -> None:
        self._model = body.model
        self._stops = frozenset(body.stop_sequences or ())
        self._cache_report = server.enable_cache_report

    def head(self, rid: str, content: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"msg_{rid}", "type": "message", "role": "assistant", "content": content, "model": self._model
        }  # fmt: skip

    def stop(self, end: Finished) -> dict[str, Any]:
        """``stop_reason`` and the sequence of the caller that was hit."""
        if end.reason == "stop" and end.matched in self._stops:
            return {"stop_reason": "stop_sequence", "stop_sequence": end.matched}
        return {"stop_reason": _REASONS.get(end.reason, "end_turn"), "stop_sequence": None}

    def input_usage(self, counts: ChatUsage) -> dict[str, Any]:
        """Tokens that came in; those found in the cache are told apart where the server reports them."""
        if not self._cache_report:
            return {"input_tokens": counts.prompt_tokens}
        fresh = counts.prompt_tokens - counts.cached_tokens
        return {"input_tokens": fresh, "cache_read_input_tokens": counts.cached_tokens}

    def answer(self, answer: ChatAnswer) -> dict[str, Any]:
        choice = answer.choices[0]
        content: list[dict[str, Any]] = []
        if choice.reasoning:
            content.append(thinking_block(choice.reasoning))
        if choice.text:
            content.append(text_block(choice.text))
        content += [_tool_use(call) for call in choice.tool_calls]
        usage = self.input_usage(answer.usage)
        return {
            **self.head(choice.stream.rid, content or [text_block("")]),
            **self.stop(choice.finished),
            "usage": {**usage, "output_tokens": answer.usage.completion_tokens},
        }


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def thinking_block(text: str) -> dict[str, Any]:
    """Nothing is signed here, but clients read the field and send it back."""
    return {"type": "thinking", "thinking": text, "signature": ""}


def tool_block(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def _tool_use(call: ToolCall) -> dict[str, Any]:
    return tool_block(call.id, call.name, orjson.loads(call.arguments or "{}"))
