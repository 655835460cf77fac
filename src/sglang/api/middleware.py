"""Plain ASGI layers around the routes: a bound on body size, cross-origin rules, and the life of the server."""

from __future__ import annotations

from typing import Any

from starlette._utils import get_route_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sglang.api.errors import error_object, http_error, json_response
from sglang.api.lifecycle import Lifecycle

MAX_BODY_BYTES = 64 * 1024 * 1024
"""Largest request body; a larger one is answered 413 before it is read to the end."""


class LifecycleMiddleware:
    """Counts requests in progress; while the server stops, turns new ones away with 503."""

    PROBES = frozenset({"/health", "/health_generate", "/ready", "/ping"})

    def __init__(self, app: ASGIApp, lifecycle: Lifecycle) -> None:
        self.app = app
        self._lifecycle = lifecycle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or get_route_path(scope) in self.PROBES:
            await self.app(scope, receive, send)
            return
        if self._lifecycle.stopping:
            error = http_error(503, "The server is shutting down.")
            await json_response(error.body, error.status)(scope, receive, send)
            return
        self._lifecycle.active += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self._lifecycle.active -= 1


class BodyTooLarge(Exception):
    """More bytes arrived than allowed."""


class BodyLimitMiddleware:
    """Answers 413 to a body over the limit, by its declared length or by the bytes that really come."""

    def __init__(self, app: ASGIApp, limit: int = MAX_BODY_BYTES) -> None:
        self.app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if self._declared(scope) > self._limit:
            await self._answer()(scope, receive, send)
            return
        total = 0

        async def limited() -> Message:
            nonlocal total
            message = await receive()
            if message["type"] == "http.request":
                total += len(message.get("body", b""))
                if total > self._limit:
                    raise BodyTooLarge
            return message

        try:
            await self.app(scope, limited, send)
        except BodyTooLarge:  # bodies are read before an answer starts
            await self._answer()(scope, receive, send)

    def _declared(self, scope: Scope) -> int:
        for name, value in scope["headers"]:
            if name == b"content-length":
                return int(value) if value.isdigit() else 0
        return 0

    def _answer(self) -> Any:
        text = f"body: larger than the limit of {self._limit} bytes; send a smaller request"
        return json_response(error_object(text, 413, "413"), 413)
