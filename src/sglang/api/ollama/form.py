"""How answers look: one JSON object, or one for each piece and a last one with the counts."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal

import orjson
from fastapi import Request

from sglang.api.chat.events import ChatUsage, ToolCall
from sglang.api.ollama.protocol import AnswerFields
from sglang.api.openai.logprobs import chat_logprobs, require_tokenizer
from sglang.api.work import manager
from sglang.ipc.messages import LogprobDelta

if TYPE_CHECKING:
    from sglang.processes.tokenizer.streams import RequestStream

Plain = dict[str, Any]
Kind = Literal["chat", "generate"]


def now() -> str:
    """The time of day as Ollama writes it, in UTC."""
    return timestamp(time.time())


def timestamp(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


class AnswerForm:
    """How the answer to one request looks. ``model`` is the served name."""

    def __init__(self, request: Request, body: AnswerFields, model: str, kind: Kind) -> None:
        self._model = model
        self._kind = kind
        self._with_context = kind == "generate" and not getattr(body, "raw", False)
        self._tokenizer = require_tokenizer(manager(request)) if body.logprobs else None
        self._top = body.top_logprobs or 0
        self._started = time.perf_counter()

    def piece(
        self, text: str = "", thinking: str | None = None, calls: list[ToolCall] | None = None, **rest: Any
    ) -> Plain:
        """A part of the answer, or with ``done=True`` the whole of it."""
        head: Plain = {"model": self._model, "created_at": now()}
        if self._kind == "generate":
            head["response"] = text
            if thinking:
                head["thinking"] = thinking
            return {**head, "done": False, "done_reason": None, **rest}
        message: Plain = {"role": "assistant", "content": text, "images": None}
        if thinking:
            message["thinking"] = thinking
        if calls:
            message["tool_calls"] = [_tool_call(call) for call in calls]
        return {**head, "message": message, "done": False, "done_reason": None, **rest}

    def end(self, reason: str, stream: RequestStream, counts: ChatUsage) -> Plain:
        """The keys that close an answer; durations are in nanoseconds."""
        first = stream.first_after or 0.0
        total = stream.finished_after or 0.0
        end: Plain = {
            "done": True,
            "done_reason": "stop" if reason == "tool_calls" else reason,
            "total_duration": _ns(time.perf_counter() - self._started),
            "load_duration": 0,  # the model was there before the request
            "prompt_eval_count": counts.prompt_tokens,
            "prompt_eval_duration": _ns(first),
            "eval_count": counts.completion_tokens,
            "eval_duration": _ns(total - first),
        }
        if self._kind == "generate":
            end["context"] = [*stream.prompt_ids, *stream.output_ids] if self._with_context else None
        return end

    def not_run(self, unloads: bool) -> Plain:
        """The answer to a request without a prompt: programs send them to load or unload the model."""
        rest: Plain = {"context": None} if self._kind == "generate" else {}
        return self.piece(done=True, done_reason="unload" if unloads else "load", **rest)

    def logprobs(self, new: LogprobDelta | None) -> Plain:
        if self._tokenizer is None or new is None:
            return {}
        entries: list[Plain] = chat_logprobs(self._tokenizer, new, self._top)["content"]
        if not self._top:
            for entry in entries:
                del entry["top_logprobs"]
        return {"logprobs": entries}


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _tool_call(call: ToolCall) -> Plain:
    function = {"index": call.index, "name": call.name, "arguments": orjson.loads(call.arguments or "{}")}
    return {"id": call.id, "function": function}
