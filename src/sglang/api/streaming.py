"""Server-sent events, and what happens when the client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, TypeVar

import orjson
from fastapi import Request, Response
from starlette.types import Receive, Scope, Send

from sglang.api.errors import ClientGone

DONE = b"data: [DONE]\n\n"

T = TypeVar("T")


def event(data: Any) -> bytes:
    return b"data: " + orjson.dumps(data) + b"\n\n"


async def until_disconnect(receive: Receive) -> None:
    """Return when the client has closed the connection (the body must have been read)."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_disconnected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Run ``work``; the moment the client goes away cancel it and raise :class:`ClientGone`.

    Cancelling is the signal to abort the request: work that holds a request group aborts it on the way out.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(until_disconnect(receive))
    try:
        await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return task.result()
    finally:
        watch.cancel()
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class EventStream(Response):
    """Sends ready-made event bytes; closes the generator as soon as the client is gone."""

    media_type = "text/event-stream"

    def __init__(
        self, events: AsyncGenerator[bytes, None], first: bytes | None = None, media_type: str | None = None
    ) -> None:
        super().__init__(headers={"cache-control": "no-cache"}, media_type=media_type)
        del self.headers["content-length"]
        self._events = events
        self._first = first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await unless_disconnected(receive, self._send_all(send))
        except (ClientGone, OSError):
            pass
        finally:
            await self._events.aclose()

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if self._first is not None:
            await send({"type": "http.response.body", "body": self._first, "more_body": True})
        async for data in self._events:
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def open_stream(
    request: Request, events: AsyncGenerator[bytes, None], media_type: str | None = None
) -> EventStream:
    """Wait for the first event before the headers go out, so that a refused request still gets its own status."""
    try:
        first = await unless_disconnected(request.receive, _first(events))
    except BaseException:
        await events.aclose()
        raise
    return EventStream(events, first, media_type)


async def _first(events: AsyncGenerator[bytes, None]) -> bytes:
    return await anext(events)
