"""Error bodies as Ollama's clients read them: ``{"error": "text"}``."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import Headers

from sglang.api.errors import ApiError

PATH = "/api"
"""Everything at and below this path answers errors in this form."""

_NAMES = (
    ("max_new_tokens", "num_predict"),
    ("repetition_penalty", "repeat_penalty"),
    ("sampling_seed", "seed"),
)


def error_body(status: int, message: str) -> dict[str, Any]:
    if status == 500:
        message = "Internal server error"
    for native, name in _NAMES:
        message = message.replace(native, name)
    return {"error": message}


def error_shape(status: int, message: str, asked: Headers) -> dict[str, Any]:
    """See :data:`sglang.api.error_shapes.Shape`."""
    return error_body(status, message)


def ollama_error(message: str, status: int = 400) -> ApiError:
    return ApiError(status, {"error": message})
