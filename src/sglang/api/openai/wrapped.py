"""The error body of the newer OpenAI routes (responses, files, batches): one object under ``error``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sglang.api.errors import ApiError, openai_api_error
from sglang.ipc.errors import InvalidRequest, RequestAborted


def wrapped_error(message: str, status: int = 400, param: str | None = None, code: str | int | None = None) -> ApiError:
    """``{"error": {"message", "type", "param", "code"}}``; the code is the status unless there is a better one."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    error = {"message": message, "type": kind, "param": param, "code": status if code is None else code}
    return ApiError(status, {"error": error})


@contextmanager
def wrapped_errors() -> Iterator[None]:
    """Give whatever refuses a request inside the block this body."""
    try:
        yield
    except (InvalidRequest, RequestAborted) as error:
        raise _wrapped(openai_api_error(error), _NAMES) from None
    except ApiError as error:
        raise _wrapped(error) from None


_NAMES = (("max_tokens:", "max_output_tokens:"), ("messages:", "input:"))
"""Beginnings of the chat core's refusals, and what the fields are called here."""


def _wrapped(error: ApiError, names: Sequence[tuple[str, str]] = ()) -> ApiError:
    body: dict[str, Any] = error.body
    if "error" in body:
        return error
    message = str(body.get("message"))
    for name, own in names:
        if message.startswith(name):
            message = own + message.removeprefix(name)
    return wrapped_error(message, error.status)
