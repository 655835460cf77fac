"""Gives every error on a family's paths the family's own body, whoever made it: router, layers, handlers, a bug."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

import orjson
from starlette._utils import get_route_path
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Shape = Callable[[int, str, Headers], dict[str, Any] | None]
"""(status, message, request headers) → body; None leaves the answer as it is."""


class ErrorShapeMiddleware:
    """Rewrites the bodies of answers from 400 on, below the given paths. The outermost layer."""

    def __init__(self, app: ASGIApp, shapes: Sequence[tuple[str, Shape]]) -> None:
        self.app = app
        self._shapes = shapes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        shape = self._shape(get_route_path(scope)) if scope["type"] == "http" else None
        if shape is None:
            await self.app(scope, receive, send)
        else:
            await _reshaped(self.app, shape, scope, receive, send)

    def _shape(self, path: str) -> Shape | None:
        for prefix, shape in self._shapes:
            if path == prefix or path.startswith(prefix.rstrip("/") + "/"):
                return shape
        return None


async def _reshaped(app: ASGIApp, shape: Shape, scope: Scope, receive: Receive, send: Send) -> None:
    start: Message | None = None
    started = False
    raw = b""

    async def collect(message: Message) -> None:
        nonlocal start, started, raw
        if message["type"] == "http.response.start":
            started = True
            if message["status"] >= 400:
                start = message
                return
        if start is None:
            await send(message)
            return
        raw += message.get("body", b"")
        if not message.get("more_body", False):
            await _send_error(start, raw, shape, Headers(scope=scope), send)

    try:
        await app(scope, receive, collect)
    except Exception:
        if not started:
            failure: Message = {"type": "http.response.start", "status": 500, "headers": []}
            await _send_error(failure, b"", shape, Headers(scope=scope), send)
        raise  # for the log


async def _send_error(start: Message, raw: bytes, shape: Shape, asked: Headers, send: Send) -> None:
    body = shape(start["status"], message_of(raw, start["status"]), asked)
    if body is not None:
        raw = orjson.dumps(body)
        headers = MutableHeaders(raw=list(start["headers"]))
        headers["content-type"] = "application/json"
        headers["content-length"] = str(len(raw))
        start = {**start, "headers": headers.raw}
    await send(start)
    await send({"type": "http.response.body", "body": raw, "more_body": False})


def message_of(raw: bytes, status: int) -> str:
    """The text of an error body of any family; the status in words where there is none."""
    try:
        body: Any = orjson.loads(raw)
    except orjson.JSONDecodeError:
        body = None
    if isinstance(body, dict):
        inner = body.get("error")
        for holder, key in ((body, "message"), (body, "detail"), (body, "error"), (inner, "message")):
            if isinstance(holder, dict) and isinstance(holder.get(key), str):
                return str(holder[key])
    return HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Error"
