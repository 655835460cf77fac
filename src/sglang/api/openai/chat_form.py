"""How a chat answer looks, whole and as chunks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from sglang.api.openai.logprobs import chat_logprobs, require_tokenizer
from sglang.api.openai.protocol.chat import ChatCompletionRequest
from sglang.api.openai.usage import cache_details, finish, metadata, usage
from sglang.ipc.messages import LogprobDelta

if TYPE_CHECKING:
    from sglang.config.server_args import ServerArgs
    from sglang.processes.tokenizer.manager import TokenizerManager
    from sglang.processes.tokenizer.streams import Chunk, RequestGroup, RequestStream


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

    def usage(self, group: RequestGroup) -> dict[str, Any]:
        return usage(group, self.body.n, self._cache_report)

    def extension(self, group: RequestGroup) -> dict[str, Any] | None:
        """The ``sglext`` object; None where nothing of it was asked for."""
        extension: dict[str, Any] = {}
        if self.body.return_cached_tokens_details:
            extension["cached_tokens_details"] = cache_details(group)
        if self._input_ids:
            extension["input_ids"] = group.streams[0].prompt_ids
        if self._output_ids:
            extension["output_ids"] = [stream.output_ids for stream in group.streams]
        return extension or None

    def answer(self, group: RequestGroup) -> dict[str, Any]:
        answer = {
            "id": group.streams[0].rid,
            "object": "chat.completion",
            "created": self.created,
            "model": self.body.model,
            "choices": [self._choice(stream) for stream in group.streams],
            "usage": self.usage(group),
            "metadata": metadata(group.streams[0]),
        }
        if (extension := self.extension(group)) is not None:
            answer["sglext"] = extension
        return answer

    def _choice(self, stream: RequestStream) -> dict[str, Any]:
        reason, matched = finish(stream)
        choice = {
            "index": stream.index,
            "message": {"role": "assistant", "content": stream.text, "reasoning_content": None},
            "logprobs": self.logprobs(stream.logprobs),
            "finish_reason": reason,
            "matched_stop": matched,
        }
        if self.body.return_prompt_token_ids or self.body.return_token_ids:
            choice["prompt_token_ids"] = stream.prompt_ids
        if self.body.return_token_ids:
            choice["response_token_ids"] = stream.output_ids
        if self.body.return_meta_info:
            choice["meta_info"] = stream.result()["meta_info"]
        return choice


_ROLE = b'"delta":{"reasoning_content":null,"role":"assistant","content":""}'
_CONTENT = b'"delta":{"reasoning_content":null,"content":'
_EMPTY = b'"delta":{"reasoning_content":null}'
_RUNNING = b',"logprobs":null,"finish_reason":null,"matched_stop":null}]'
_END = b"}\n\n"


class ChatWriter:
    """Chunk bytes: role, contents, then (when all choices are done) one finish chunk a choice."""

    def __init__(self, form: ChatForm, group: RequestGroup, include_usage: bool) -> None:
        self._form = form
        self._group = group
        self._include_usage = include_usage
        options = form.body.stream_options
        self._running_usage = options is not None and options.continuous_usage_stats
        self._heads = [self._head(stream) + b'"choices":[{"index":%d,' % stream.index for stream in group.streams]
        self._opened: set[int] = set()

    def _head(self, stream: RequestStream) -> bytes:
        form = self._form
        head = {"id": stream.rid, "object": "chat.completion.chunk", "created": form.created, "model": form.body.model}
        return b"data: " + orjson.dumps(head)[:-1] + b","

    def chunk(self, stream: RequestStream, chunk: Chunk) -> bytes:
        head = self._heads[stream.index]
        data = b""
        if stream.index not in self._opened:
            self._opened.add(stream.index)
            data = head + _ROLE + _RUNNING + self._counts() + _END
        logprobs = self._form.logprobs(chunk.logprobs)
        if chunk.text or (logprobs and logprobs["content"]):  # a chunk without text still brings its tokens' logprobs
            data += head + _CONTENT + orjson.dumps(chunk.text) + b"}"
            data += _RUNNING if logprobs is None else self._with_logprobs(logprobs)
            data += self._counts() + _END
        return data

    def _with_logprobs(self, logprobs: dict[str, Any]) -> bytes:
        return b',"logprobs":' + orjson.dumps(logprobs) + b',"finish_reason":null,"matched_stop":null}]'

    def _counts(self) -> bytes:
        if not self._running_usage:
            return b""
        return b',"usage":' + orjson.dumps(self._form.usage(self._group))

    def tail(self) -> bytes:
        data = b"".join(self._finish(stream) for stream in self._group.streams)
        head = self._head(self._group.streams[-1])
        if (extension := self._form.extension(self._group)) is not None:
            data += head + b'"choices":[],"sglext":' + orjson.dumps(extension) + _END
        if self._include_usage:
            data += head + b'"choices":[],"usage":' + orjson.dumps(self._form.usage(self._group)) + _END
        return data

    def _finish(self, stream: RequestStream) -> bytes:
        reason, matched = finish(stream)
        rest = {"logprobs": None, "finish_reason": reason, "matched_stop": matched}
        return self._heads[stream.index] + _EMPTY + b"," + orjson.dumps(rest)[1:] + b"]" + _END
