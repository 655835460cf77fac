"""A chat answer as chunks: role, deltas, then (when all choices are done) one finish chunk a choice."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import orjson
from fastapi import Request

from sglang.api.chat.events import Finished, Update
from sglang.api.chat.run import ChatRun
from sglang.api.openai.chat_form import ChatForm
from sglang.api.openai.stream import guarded
from sglang.api.openai.submit import openai_errors
from sglang.api.streaming import DONE, EventStream, open_stream
from sglang.parsers.events import ParserEvent, ReasoningDelta, TextDelta, ToolCallArguments, ToolCallStart

if TYPE_CHECKING:
    from sglang.processes.tokenizer.streams import RequestStream

_ROLE = b'"delta":{"reasoning_content":null,"role":"assistant","content":""}'
_CONTENT = b'"delta":{"reasoning_content":null,"content":%b}'
_CONTENT_WITH_TOOLS = b'"delta":{"role":null,"content":%b,"reasoning_content":null}'
_REASONING = b'"delta":{"reasoning_content":%b}'
_EMPTY = b'"delta":{"reasoning_content":null}'
_TOOL = b'"delta":{"role":null,"content":null,"reasoning_content":null,"tool_calls":[%b]}'
_RUNNING = b',"logprobs":null,"finish_reason":null,"matched_stop":null}]'
_END = b"}\n\n"


async def stream_chat(request: Request, run: ChatRun, writer: ChatWriter) -> EventStream:
    """Start streaming. A request that is refused before its first chunk gets a plain error answer instead."""
    with openai_errors():
        return await open_stream(request, guarded(_chunks(run, writer)))


async def _chunks(run: ChatRun, writer: ChatWriter) -> AsyncGenerator[bytes, None]:
    async for update in run.updates():
        if data := writer.chunk(update):
            yield data
    yield writer.tail() + DONE


class ChatWriter:
    """Turns updates into event bytes; everything that stays the same is written once a choice."""

    def __init__(self, form: ChatForm, run: ChatRun, include_usage: bool) -> None:
        self._form = form
        self._run = run
        self._include_usage = include_usage
        options = form.body.stream_options
        self._running_usage = options is not None and options.continuous_usage_stats
        streams = run.group.streams
        self._heads = [self._head(stream) + b'"choices":[{"index":%d,' % stream.index for stream in streams]
        self._ends: list[Finished | None] = [None] * len(streams)
        self._opened: set[int] = set()
        # Clients know the chunks of requests with tools in a shape of their own.
        self._content = _CONTENT_WITH_TOOLS if run.parses_tools else _CONTENT
        self._no_counts = b',"usage":null' if run.parses_tools else b""

    def _head(self, stream: RequestStream) -> bytes:
        form = self._form
        head = {"id": stream.rid, "object": "chat.completion.chunk", "created": form.created, "model": form.body.model}
        return b"data: " + orjson.dumps(head)[:-1] + b","

    def chunk(self, update: Update) -> bytes:
        """Events for one update; empty where there is nothing to say."""
        head = self._heads[update.choice]
        counts = self._counts()
        data = b""
        if update.choice not in self._opened:
            self._opened.add(update.choice)
            data = head + _ROLE + _RUNNING + counts + _END
        if update.finished is not None:
            self._ends[update.choice] = update.finished
        rest = _RUNNING
        logprobs = self._form.logprobs(update.logprobs)
        deltas = [delta for event in update.events if (delta := self._delta(event))]
        if logprobs is not None and logprobs["content"]:
            # The first delta of a step brings the logprobs of all its tokens; a step without text gets an empty one.
            rest = b',"logprobs":' + orjson.dumps(logprobs) + b',"finish_reason":null,"matched_stop":null}]'
            deltas = deltas or [self._delta(TextDelta(""))]
        for delta in deltas:
            data += head + delta + rest + (counts or self._no_counts) + _END
            rest = _RUNNING
        return data

    def _delta(self, event: ParserEvent) -> bytes:
        if isinstance(event, TextDelta):
            return self._content % orjson.dumps(event.text)
        if isinstance(event, ReasoningDelta):
            return _REASONING % orjson.dumps(event.text)
        if isinstance(event, ToolCallStart):
            return _tool_delta(event.index, event.id, event.name, "")
        if isinstance(event, ToolCallArguments):
            return _tool_delta(event.index, None, None, event.delta)
        return b""

    def _counts(self) -> bytes:
        if not self._running_usage:
            return b""
        return b',"usage":' + orjson.dumps(self._form.usage(self._run.usage()))

    def tail(self) -> bytes:
        """Events after all choices have finished, ``[DONE]`` excluded."""
        streams = self._run.group.streams
        data = b"".join(self._finish(stream) for stream in streams)
        head = self._head(streams[-1])
        if (extension := self._form.extension(streams)) is not None:
            data += head + b'"choices":[],"sglext":' + orjson.dumps(extension) + _END
        if self._include_usage:
            data += head + b'"choices":[],"usage":' + orjson.dumps(self._form.usage(self._run.usage())) + _END
        return data

    def _finish(self, stream: RequestStream) -> bytes:
        end = self._ends[stream.index] or Finished("stop")
        rest = {"logprobs": None, "finish_reason": end.reason, "matched_stop": end.matched}
        return self._heads[stream.index] + _EMPTY + b"," + orjson.dumps(rest)[1:] + b"]" + _END


def _tool_delta(index: int, call_id: str | None, name: str | None, arguments: str) -> bytes:
    call: dict[str, Any] = {
        "id": call_id, "index": index, "type": "function", "function": {"name": name, "arguments": arguments}
    }  # fmt: skip
    return _TOOL % orjson.dumps(call)
