"""The response object: what the request said, where the answer stands, and what it holds so far."""

from __future__ import annotations

import time
import uuid
from typing import Any

from sglang.api.chat.events import ChatUsage
from sglang.api.openai.protocol.responses import ResponsesRequest
from sglang.api.openai.responses.tools import tool_echo

Event = dict[str, Any]
"""A stream event, before it gets its sequence number."""

TEXT_FORMAT = {"format": {"type": "text"}}
FINISHED = frozenset({"completed", "incomplete", "failed", "cancelled"})


class ResponseForm:
    """How the answer to one request looks."""

    def __init__(self, body: ResponsesRequest, model: str) -> None:
        self.body = body
        self.id = body.request_id or f"resp_{uuid.uuid4().hex}"
        self._model = model
        self._created = int(time.time())

    def response(
        self,
        status: str,
        output: list[dict[str, Any]] | None = None,
        usage: ChatUsage | None = None,
        error: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        body = self.body
        text = body.text.model_dump(exclude_none=True) if body.text is not None else None
        response = {
            "id": self.id,
            "object": "response",
            "created_at": self._created,
            "model": self._model,
            "output": output or [],
            "status": status,
            "usage": None if usage is None else usage_object(usage),
            "parallel_tool_calls": body.parallel_tool_calls,
            "tool_choice": body.tool_choice,
            "tools": [tool_echo(tool) for tool in body.tools],
            "error": error,
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": body.instructions,
            "max_output_tokens": body.max_output_tokens,
            "previous_response_id": body.previous_response_id,
            "reasoning": self._reasoning(),
            "store": body.store,
            "temperature": body.temperature,
            "text": text or (TEXT_FORMAT if status in FINISHED else None),
            "top_p": body.top_p,
            "truncation": body.truncation,
            "user": body.user,
            "metadata": body.metadata or {},
        }
        if body.background:
            response["background"] = True
        return response

    def _reasoning(self) -> dict[str, Any]:
        given = self.body.reasoning
        return {"effort": effort_of(self.body), "summary": None if given is None else given.summary}


def effort_of(body: ResponsesRequest) -> str | float | None:
    """Asking for reasoning without saying how much means medium."""
    if body.reasoning is None:
        return None
    return "medium" if body.reasoning.effort is None else body.reasoning.effort


def usage_object(usage: ChatUsage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
