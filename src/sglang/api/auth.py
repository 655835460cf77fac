"""Who may call what. Deny by default: with a key set, every path asks for it unless its route says otherwise.

    class           no keys   api key only   admin key only   both keys
    normal          open      api key        open             api key
    admin optional  open      api key        admin key        admin key
    open            open      open           open             open

A route declares its class beside its path (``@admin_optional``, ``@open_to_all``); unknown paths are normal.
Keys come as ``Authorization: Bearer <key>``; routes marked ``@accepts_x_api_key``, and paths below them, take the
header ``x-api-key`` too.
Without keys, control routes refuse calls that a browser makes on behalf of a foreign page.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, TypeVar

from starlette._utils import get_route_path
from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sglang.api.errors import json_response


class Access(Enum):
    NORMAL = "normal"
    ADMIN_OPTIONAL = "admin optional"
    OPEN = "open"


METRICS_PATH = "/metrics"
"""Open by contract wherever it is served."""

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


def admin_optional(endpoint: Endpoint) -> Endpoint:
    """Control route: needs the admin key where there is one, else the API key."""
    endpoint.__dict__["access"] = Access.ADMIN_OPTIONAL
    return endpoint


def open_to_all(endpoint: Endpoint) -> Endpoint:
    """Probe route: never asks for a key."""
    endpoint.__dict__["access"] = Access.OPEN
    return endpoint


def accepts_x_api_key(endpoint: Endpoint) -> Endpoint:
    """Route whose clients send the key as ``x-api-key``."""
    endpoint.__dict__["x_api_key"] = True
    return endpoint


def x_api_key_paths(routes: Iterable[BaseRoute]) -> frozenset[str]:
    """Paths of the routes marked so."""
    return frozenset(
        route.path for route in routes if isinstance(route, Route) and getattr(route.endpoint, "x_api_key", False)
    )


def access_table(routes: Iterable[BaseRoute]) -> dict[str, Access]:
    """Exact path → class, for every route that isn't normal."""
    table = {METRICS_PATH: Access.OPEN}
    for route in routes:
        if isinstance(route, Route) and (access := getattr(route.endpoint, "access", None)) is not None:
            if "{" in route.path:
                raise ValueError(f"route {route.path}: only a fixed path can be {access.value}")
            table[route.path] = access
    return table


class AuthMiddleware:
    """Checks the key before anything else looks at the request."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        table: dict[str, Access],
        api_key: str | None,
        admin_api_key: str | None,
        x_api_key_paths: frozenset[str] = frozenset(),
    ) -> None:
        self.app = app
        self._table = table
        self._x_api_key_paths = x_api_key_paths
        self._api_key = api_key.encode() if api_key else None
        self._admin_key = admin_api_key.encode() if admin_api_key else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or scope.get("method") == "OPTIONS":
            await self.app(scope, receive, send)
            return
        path = get_route_path(scope)
        access = self._table.get(path, Access.NORMAL)
        headers = Headers(scope=scope)
        if not self._may_pass(access, headers, self._reads_x_api_key(path)):
            await self._refuse(401, "Unauthorized", scope, receive, send)
        elif access is Access.ADMIN_OPTIONAL and self._key(access) is None and is_foreign_page(headers):
            await self._refuse(403, "Forbidden", scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _key(self, access: Access) -> bytes | None:
        """The key a class asks for; None: open."""
        if access is Access.OPEN:
            return None
        if access is Access.ADMIN_OPTIONAL and self._admin_key is not None:
            return self._admin_key
        return self._api_key

    def _reads_x_api_key(self, path: str) -> bool:
        return any(path == known or path.startswith(f"{known}/") for known in self._x_api_key_paths)

    def _may_pass(self, access: Access, headers: Headers, x_api_key: bool) -> bool:
        key = self._key(access)
        if key is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("latin-1"), key):
            return True
        return x_api_key and hmac.compare_digest(headers.get("x-api-key", "").encode("latin-1"), key)

    async def _refuse(self, status: int, text: str, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": text})
        else:
            await json_response({"error": text}, status)(scope, receive, send)


def is_foreign_page(headers: Headers) -> bool:
    """True for a call that a browser sends for a page of another origin (link, form or script).

    Browsers add these headers themselves and pages can't forge them; other clients send neither.
    """
    if headers.get("sec-fetch-site", "none") in ("cross-site", "same-site"):
        return True
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2] != headers.get("host")
