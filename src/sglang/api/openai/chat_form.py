"""How a whole chat answer looks, and the parts that streams share with it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sglang.api.chat.events import ChatAnswer, ChatChoice, ChatUsage, ToolCall
from sglang.api.openai.logprobs import chat_logprobs, require_tokenizer
from sglang.api.openai.protocol.chat import ChatCompletionRequest
from sglang.api.openai.usage import metadata, usage_object
from sglang.ipc.messages import LogprobDelta

if TYPE_CHECKING:
    from sglang.config.server_args import ServerArgs
    from sglang.processes.tokenizer.manager import TokenizerManager
    from sglang.processes.tokenizer.streams import RequestStream


class ChatForm:
    """How the answer to one request looks."""

    def __init__(
        self, tm: TokenizerManager, body: ChatCompletionRequest, server: ServerArgs, headers: Mapping[str, str]
    ) -> None:
        self.body = body
        self.created = int(time.time())
        self._cache_report = server.enable_cache_report
        self._tokenizer = require_tokenizer(tm) if body.logprobs else None
        self._input_ids = (
            body.return_input_ids_in_sglext
            or server.return_input_ids
            or headers.get("x-sglext-return-input-ids") == "1"
        )
        self._output_ids = (
            body.return_output_ids_in_sglext
            or server.return_output_ids
            or headers.get("x-sglext-return-output-ids") == "1"
        )

    def logprobs(self, new: LogprobDelta | None) -> dict[str, Any] | None:
        if self._tokenizer is None or new is None:
            return None
        return chat_logprobs(self._tokenizer, new, self.body.top_logprobs or 0)

    def usage(self, counts: ChatUsage) -> dict[str, Any]:
        cached = counts.cached_tokens if self._cache_report else None
        return usage_object(counts.prompt_tokens, counts.completion_tokens, cached, counts.reasoning_tokens)

    def extension(self, streams: list[RequestStream]) -> dict[str, Any] | None:
        """The ``sglext`` object; None where nothing of it was asked for."""
        extension: dict[str, Any] = {}
        if self.body.return_cached_tokens_details:
            cached = sum(stream.cached_tokens for stream in streams)
            extension["cached_tokens_details"] = {"device": cached, "host": 0}
        if self._input_ids:
            extension["input_ids"] = streams[0].prompt_ids
        if self._output_ids:
            extension["output_ids"] = [stream.output_ids for stream in streams]
        return extension or None

    def answer(self, answer: ChatAnswer) -> dict[str, Any]:
        streams = [choice.stream for choice in answer.choices]
        body = {
            "id": streams[0].rid,
            "object": "chat.completion",
            "created": self.created,
            "model": self.body.model,
            "choices": [self._choice(choice) for choice in answer.choices],
            "usage": self.usage(answer.usage),
            "metadata": metadata(streams[0]),
        }
        if (extension := self.extension(streams)) is not None:
            body["sglext"] = extension
        return body

    def _choice(self, choice: ChatChoice) -> dict[str, Any]:
        stream = choice.stream
        body = {
            "index": choice.index,
            "message": _message(choice),
            "logprobs": self.logprobs(stream.logprobs),
            "finish_reason": choice.finished.reason,
            "matched_stop": choice.finished.matched,
        }
        if self.body.return_prompt_token_ids or self.body.return_token_ids:
            body["prompt_token_ids"] = stream.prompt_ids
        if self.body.return_token_ids:
            body["response_token_ids"] = stream.output_ids
        if self.body.return_meta_info:
            body["meta_info"] = stream.result()["meta_info"]
        return body


def _message(choice: ChatChoice) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant", "content": choice.text, "reasoning_content": choice.reasoning
    }  # fmt: skip
    if choice.tool_calls:
        message["tool_calls"] = [_tool_call(call) for call in choice.tool_calls]
    return message


def _tool_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "index": call.index, "type": "function", "function": function}
