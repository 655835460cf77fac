"""The error body of the newer OpenAI routes (responses, files, batches): one object under ``error``."""

from __future__ import annotations

from collections.abc import Iterator
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
        raise _wrapped(openai_api_error(error)) from None
    except ApiError as error:
        raise _wrapped(error) from None


def _wrapped(error: ApiError) -> ApiError:
    body: dict[str, Any] = error.body
    return error if "error" in body else wrapped_error(str(body.get("message")), error.status)
