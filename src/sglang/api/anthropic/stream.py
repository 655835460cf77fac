"""An answer as events: message_start, blocks one after another, message_delta, message_stop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from typing import Any

import orjson

from sglang.api.anthropic.errors import error_body, exception_body
from sglang.api.anthropic.form import MessageForm, text_block, thinking_block, tool_block
from sglang.api.chat.events import Finished, Update
from sglang.api.chat.run import ChatRun
from sglang.ipc.errors import InvalidRequest, RequestAborted
from sglang.parsers.events import (
    ParserEvent,
    ReasoningDelta,
    TextDelta,
    ToolCallArguments,
    ToolCallEnd,
    ToolCallStart,
)

logger = logging.getLogger(__name__)

PING_SECONDS = 15.0
"""A client hears at least this often from a stream that has nothing to say yet."""

_TEXT_DELTA = b'{"type":"text_delta","text":%b}'
_THINKING_DELTA = b'{"type":"thinking_delta","thinking":%b}'
_JSON_DELTA = b'{"type":"input_json_delta","partial_json":%b}'


def sse(kind: str, **data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, **data}))


PING = sse("ping")
STOP = sse("message_stop")


class MessageWriter:
    """Turns updates into event bytes; knows which block is open."""

    def __init__(self, form: MessageForm, run: ChatRun) -> None:
        self._form = form
        self._run = run
        self._started = False
        self._index = -1
        self._open: str | None = None

    def write(self, update: Update) -> bytes:
        """Events for one update; empty where there is nothing to say."""
        data = b"".join(self._event(event) for event in update.events)
        if update.finished is not None:
            data += self._end(update.finished)
        return data

    def _event(self, event: ParserEvent) -> bytes:
        if isinstance(event, TextDelta):
            return self._delta("text", text_block(""), _TEXT_DELTA, event.text)
        if isinstance(event, ReasoningDelta):
            return self._delta("thinking", thinking_block(""), _THINKING_DELTA, event.text)
        if isinstance(event, ToolCallStart):
            return self._close() + self._start("tool_use", tool_block(event.id or "", event.name, {}))
        if isinstance(event, ToolCallArguments):
            return self._block_delta(_JSON_DELTA, event.delta) if event.delta else b""
        assert isinstance(event, ToolCallEnd)
        return self._close()

    def _delta(self, kind: str, block: dict[str, Any], form: bytes, text: str) -> bytes:
        if not text:
            return b""
        head = b"" if self._open == kind else self._close() + self._start(kind, block)
        return head + self._block_delta(form, text)

    def _block_delta(self, form: bytes, text: str) -> bytes:
        head = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":' % self._index
        return head + form % orjson.dumps(text) + b"}\n\n"

    def _start(self, kind: str, block: dict[str, Any]) -> bytes:
        self._index += 1
        self._open = kind
        data = self.message_start() + sse("content_block_start", index=self._index, content_block=block)
        return data + PING if self._index == 0 else data

    def _close(self) -> bytes:
        if self._open is None:
            return b""
        self._open = None
        return sse("content_block_stop", index=self._index)

    def message_start(self) -> bytes:
        """Once, before everything else."""
        if self._started:
            return b""
        self._started = True
        usage = {**self._form.input_usage(self._run.usage()), "output_tokens": 0}
        return sse("message_start", message={**self._form.head(self._run.group.streams[0].rid, []), "usage": usage})

    def _end(self, end: Finished) -> bytes:
        empty = self._start("text", text_block("")) if self._index < 0 else b""
        usage = {"output_tokens": self._run.usage().completion_tokens}
        return empty + self._close() + sse("message_delta", delta=self._form.stop(end), usage=usage) + STOP

    def error(self, body: dict[str, Any]) -> bytes:
        """The end of a stream that failed."""
        return self.message_start() + self._close() + sse("error", error=body["error"]) + STOP


async def message_events(run: ChatRun, writer: MessageWriter) -> AsyncGenerator[bytes, None]:
    """The whole stream. A failure before the first event is the caller's, a later one becomes an event."""
    sent = False
    events = _with_pings(run, writer)
    try:
        async for data in events:
            sent = True
            yield data
    except (InvalidRequest, RequestAborted) as error:
        if not sent:
            raise
        yield writer.error(exception_body(error))
    except Exception:
        if not sent:
            raise
        logger.exception("a /v1/messages stream failed")
        yield writer.error(error_body(500, ""))
    finally:
        await events.aclose()


async def _with_pings(run: ChatRun, writer: MessageWriter) -> AsyncGenerator[bytes, None]:
    updates = run.updates()
    first = asyncio.ensure_future(anext(updates, None))
    try:
        while not first.done():
            await asyncio.wait((first,), timeout=PING_SECONDS)
            if not first.done():
                yield PING
        if (update := first.result()) is None:
            raise RequestAborted("the model gave no answer", 500)
        last_sent = time.monotonic()
        if data := writer.write(update):
            yield data
        async for update in updates:
            now = time.monotonic()
            data = writer.write(update)
            if not data and now - last_sent > PING_SECONDS:
                data = PING  # long silent work, such as a marker that is held back
            if data:
                last_sent = now
                yield data
    finally:
        if not first.done():
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
        await updates.aclose()


async def refused_events(form: MessageForm, rid: str, body: dict[str, Any]) -> AsyncGenerator[bytes, None]:
    """The stream of a request that was refused when it was handed in."""
    usage = {"input_tokens": 0, "output_tokens": 0}
    yield sse("message_start", message={**form.head(rid, []), "usage": usage})
    yield sse("error", error=body["error"]) + STOP
