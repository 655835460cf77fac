"""The course of an OpenAI stream: chunks, a tail, ``[DONE]``; errors before and after the first chunk."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Protocol

from fastapi import Request

from sglang.api.errors import ApiError, openai_api_error, openai_error
from sglang.api.openai.submit import openai_errors
from sglang.api.streaming import DONE, EventStream, event, open_stream
from sglang.ipc.errors import InvalidRequest, RequestAborted

if TYPE_CHECKING:
    from sglang.processes.tokenizer.streams import Chunk, RequestGroup, RequestStream

logger = logging.getLogger(__name__)


class ChunkWriter(Protocol):
    """Turns news of a stream into event bytes."""

    def chunk(self, stream: RequestStream, chunk: Chunk) -> bytes:
        """Events for one chunk; empty where there is nothing to say."""
        ...

    def tail(self) -> bytes:
        """Events after all streams have finished, ``[DONE]`` excluded."""
        ...


async def stream_answer(request: Request, group: RequestGroup, writer: ChunkWriter) -> EventStream:
    """Start streaming. A request that is refused before its first chunk gets a plain error answer instead."""
    with openai_errors():
        return await open_stream(request, guarded(_events(group, writer)))


async def _events(group: RequestGroup, writer: ChunkWriter) -> AsyncGenerator[bytes, None]:
    finished = False
    try:
        async for stream, chunk in group.events():
            if chunk.finish_reason is not None:
                stream.raise_for_abort()
            if data := writer.chunk(stream, chunk):
                yield data
        finished = True
        yield writer.tail() + DONE
    finally:
        if not finished:
            group.abort()


async def guarded(chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The chunks; an error after the first one becomes an event, an earlier one is the caller's."""
    started = False
    try:
        async for data in chunks:
            started = True
            yield data
    except (InvalidRequest, RequestAborted) as error:
        if not started:
            raise
        yield _error_event(openai_api_error(error))
    except Exception:
        if not started:
            raise
        logger.exception("a stream failed")
        yield _error_event(openai_error("Internal server error", 500, "InternalServerError"))
    finally:
        await chunks.aclose()


def _error_event(error: ApiError) -> bytes:
    return event({"error": error.body}) + DONE
