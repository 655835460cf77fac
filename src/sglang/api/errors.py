"""Errors and the bodies they become. Every family has its own shape, kept as drop-in users know them.

ApiError                       a finished answer: status and body
├── native_error               {"error": {"message"}}                      native handlers
├── schema_error               {"error": "<text>"}                         wrong type or key in sampling_params
├── validation_error           {"object": "error", ..., "type": "Bad Request"}   body or query does not parse
└── openai_error               {"object": "error", ..., "type": "BadRequestError"}
InvalidRequest, RequestAborted (ipc.errors) are turned into one of these by the family that caught them.
Unknown routes and methods     {"detail": "Not Found"}   (what existing servers answer; clients rely on the key)
Anything else                  500 without any detail of the cause
"""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.requests import ClientDisconnect

from sglang.ipc.errors import InvalidRequest, RequestAborted, SchemaError

CLIENT_CLOSED_REQUEST = 499
"""Status for the log only: nobody is left to read the answer."""


class ApiError(Exception):
    """An answer other than success, ready to send."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(f"HTTP {status}: {body}")
        self.status = status
        self.body = body


class ClientGone(Exception):
    """The client closed the connection; its work was aborted."""


def json_response(content: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(content), status, media_type="application/json")


def error_object(message: str, status: int, kind: str) -> dict[str, Any]:
    return {"object": "error", "message": message, "type": kind, "param": None, "code": status}


def validation_error(message: str) -> ApiError:
    return ApiError(400, error_object(message, 400, "Bad Request"))


def http_error(status: int, message: str) -> ApiError:
    return ApiError(status, error_object(message, status, str(status)))


def native_error(message: str, status: int = 400) -> ApiError:
    return ApiError(status, {"error": {"message": message}})


def openai_error(message: str, status: int = 400, kind: str = "BadRequestError") -> ApiError:
    return ApiError(status, error_object(message, status, kind))


def native_api_error(error: InvalidRequest | RequestAborted) -> ApiError:
    """The native family's answer to a refused or aborted request."""
    if isinstance(error, SchemaError):
        return ApiError(400, {"error": str(error)})
    if isinstance(error, InvalidRequest):
        return native_error(str(error))
    return http_error(error.status_code, str(error))


_OPENAI_NAMES = (
    ("max_new_tokens", "max_tokens"),
    ("min_new_tokens", "min_tokens"),
    ("sampling_seed", "seed"),
    ("top_logprobs_num", "top_logprobs"),
)


def openai_api_error(error: InvalidRequest | RequestAborted) -> ApiError:
    """The OpenAI family's answer to a refused or aborted request; fields carry the names that its callers use."""
    if isinstance(error, InvalidRequest):
        message = str(error)
        for native, name in _OPENAI_NAMES:
            message = message.replace(native, name)
        return openai_error(message)
    return http_error(error.status_code, str(error))


async def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return json_response(error.body, error.status)


async def _request_error(request: Request, error: Exception) -> Response:
    """Refusals that a handler let through; the OpenAI family converts its own."""
    assert isinstance(error, InvalidRequest | RequestAborted)
    answer = native_api_error(error)
    return json_response(answer.body, answer.status)


async def _query_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    lines = [f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in error.errors()]
    return json_response(validation_error("; ".join(lines)).body, 400)


async def _client_gone(request: Request, error: Exception) -> Response:
    return Response(status_code=CLIENT_CLOSED_REQUEST)


async def _unexpected(request: Request, error: Exception) -> Response:
    """A bug. The log has the traceback (the server re-raises); the client learns nothing of the inside."""
    if request.url.path.startswith("/v1/"):
        return json_response(error_object("Internal server error", 500, "InternalServerError"), 500)
    return Response("Internal Server Error", 500, media_type="text/plain")


def add_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(InvalidRequest, _request_error)
    app.add_exception_handler(RequestAborted, _request_error)
    app.add_exception_handler(RequestValidationError, _query_error)
    app.add_exception_handler(Exception, _unexpected)
    app.add_exception_handler(ClientGone, _client_gone)
    app.add_exception_handler(ClientDisconnect, _client_gone)
