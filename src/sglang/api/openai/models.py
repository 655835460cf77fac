"""GET /v1/models and /v1/models/{id}."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter, Request, Response

from sglang.api.answers import info_responses
from sglang.api.errors import ApiError, json_response
from sglang.api.work import args, manager

router = APIRouter(tags=["openai"], responses=info_responses())


@router.get("/v1/models")
async def list_models(request: Request) -> Response:
    """The one served model."""
    return json_response({"object": "list", "data": [_card(request)]})


@router.get("/v1/models/{model:path}", responses={404: {"description": "The server does not serve this model"}})
async def get_model(request: Request, model: str) -> Response:
    """The served model by its name; names may hold slashes."""
    if model != _name(request):
        message = f"The model '{model}' does not exist; this server serves '{_name(request)}'"
        error = {"message": message, "type": "invalid_request_error", "param": "model", "code": "model_not_found"}
        raise ApiError(404, {"error": error})
    return json_response(_card(request))


def _name(request: Request) -> str:
    return args(request).served_model_name or args(request).model_path


def _card(request: Request) -> dict[str, Any]:
    name = _name(request)
    return {
        "id": name,
        "object": "model",
        "created": int(time.time()),
        "owned_by": "sglang",
        "root": name,
        "parent": None,
        "max_model_len": manager(request).model_config.context_length,
    }
