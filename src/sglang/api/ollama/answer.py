"""From a chat to its answer, whole or as lines of JSON."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator

import orjson
from fastapi import Request, Response

from sglang.api.chat.core import start_chat
from sglang.api.chat.events import ToolCall, Update
from sglang.api.chat.request import ChatRequest
from sglang.api.chat.run import ChatRun
from sglang.api.errors import json_response
from sglang.api.ollama.errors import error_body
from sglang.api.ollama.form import AnswerForm, Plain
from sglang.api.streaming import open_stream, unless_disconnected
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

LINES = "application/x-ndjson"


async def respond(request: Request, chat: ChatRequest, form: AnswerForm, stream: bool) -> Response:
    """Run the chat and answer in the form that the caller asked for."""
    run = await start_chat(request, chat)
    if stream:
        return await open_stream(request, _lines(run, LineWriter(form, run)), LINES)
    answer = await unless_disconnected(request.receive, run.answer())
    choice = answer.choices[0]
    whole = form.piece(choice.text, choice.reasoning, choice.tool_calls)
    end = form.end(choice.finished.reason, choice.stream, answer.usage)
    return json_response({**whole, **end, **form.logprobs(choice.stream.logprobs)})


def respond_at_once(form: AnswerForm, unloads: bool, stream: bool) -> Response:
    """Answer a request that has nothing to run."""
    answer = form.not_run(unloads)
    return Response(_line(answer), media_type=LINES) if stream else json_response(answer)


def _line(data: Plain) -> bytes:
    return orjson.dumps(data) + b"\n"


class LineWriter:
    """Turns updates into lines. A call is written when it is whole; one that was cut is not written."""

    def __init__(self, form: AnswerForm, run: ChatRun) -> None:
        self._form = form
        self._run = run
        self._call: ToolCall | None = None

    def write(self, update: Update) -> bytes:
        """Lines for one update; empty where there is nothing to say."""
        pieces = [piece for event in update.events if (piece := self._piece(event)) is not None]
        if logprobs := self._form.logprobs(update.logprobs):
            # The first piece of a step brings the logprobs of all its tokens; a step without text gets an empty one.
            pieces = pieces or [self._form.piece()]
            pieces[0].update(logprobs)
        if update.finished is not None:
            stream = self._run.group.streams[0]
            end = self._form.end(update.finished.reason, stream, self._run.usage())
            pieces.append({**self._form.piece(), **end})
        return b"".join(map(_line, pieces))

    def _piece(self, event: ParserEvent) -> Plain | None:
        if isinstance(event, TextDelta):
            return self._form.piece(event.text) if event.text else None
        if isinstance(event, ReasoningDelta):
            return self._form.piece(thinking=event.text) if event.text else None
        if isinstance(event, ToolCallStart):
            self._call = ToolCall(event.index, event.id or "", event.name, "")
        elif isinstance(event, ToolCallArguments) and self._call is not None:
            self._call.arguments += event.delta
        elif isinstance(event, ToolCallEnd) and event.complete and self._call is not None:
            return self._form.piece(calls=[self._call])
        return None


async def _lines(run: ChatRun, writer: LineWriter) -> AsyncGenerator[bytes, None]:
    """A failure before the first line is the caller's, a later one becomes a line."""
    sent = False
    updates = run.updates()
    try:
        async for update in updates:
            if data := writer.write(update):
                sent = True
                yield data
    except (InvalidRequest, RequestAborted) as error:
        if not sent:
            raise
        status = error.status_code if isinstance(error, RequestAborted) else 400
        yield _line(error_body(status, str(error)))
    except Exception:
        if not sent:
            raise
        logger.exception("an Ollama stream failed")
        yield _line(error_body(500, ""))
    finally:
        await updates.aclose()
