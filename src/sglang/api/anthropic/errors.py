"""Error bodies as Anthropic's clients read them."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import Headers

from sglang.ipc.errors import InvalidRequest, RequestAborted

PATH = "/v1/messages"
"""Everything at and below this path answers errors in this form."""

MAX_MESSAGE = 500

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "request_timeout_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
}
_NAMES = (("max_new_tokens", "max_tokens"),)
_NO_KEY = "the API key is missing or wrong; send it as x-api-key, or as Authorization: Bearer <key>"


def error_body(status: int, message: str) -> dict[str, Any]:
    """The body for a status. What went wrong inside the server stays there."""
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    if status >= 500:
        message = "Internal server error"
    for native, name in _NAMES:
        message = message.replace(native, name)
    return {"type": "error", "error": {"type": kind, "message": message[:MAX_MESSAGE]}}


def exception_body(error: InvalidRequest | RequestAborted) -> dict[str, Any]:
    status = error.status_code if isinstance(error, RequestAborted) else 400
    return error_body(status, str(error))


def error_shape(status: int, message: str, asked: Headers) -> dict[str, Any] | None:
    """See :data:`sglang.api.error_shapes.Shape`.

    Without a key, callers that show no sign of Anthropic's own client get the answer that all routes give.
    """
    if status == 401:
        if "x-api-key" not in asked and "anthropic-version" not in asked:
            return None
        message = _NO_KEY
    return error_body(status, message)
