"""GET /v1/models and /v1/models/{id}: the served model and its adapters."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request, Response

from sglang.api.answers import info_responses
from sglang.api.errors import ApiError, json_response
from sglang.api.work import args, manager, served_model

router = APIRouter(tags=["openai"], responses=info_responses())


@router.get("/v1/models")
async def list_models(request: Request) -> Response:
    """The served model, then the adapters that requests can name."""
    return json_response({"object": "list", "data": _cards(request)})


@router.get("/v1/models/{model:path}", responses={404: {"description": "The server does not serve this model"}})
async def get_model(request: Request, model: str) -> Response:
    """One card by its name; names may hold slashes. ``base:adapter`` finds the adapter too."""
    name = served_model(request)
    wanted = model.removeprefix(f"{name}:") if model != name else name
    for card in _cards(request):
        if card["id"] == wanted:
            return json_response(card)
    raise model_not_found(model, name, "model_not_found")


def model_not_found(model: str, served: str, code: str | int) -> ApiError:
    message = f"The model '{model[:200]}' does not exist; this server serves '{served}'"
    error = {"message": message, "type": "invalid_request_error", "param": "model", "code": code}
    return ApiError(404, {"error": error})


def _cards(request: Request) -> list[dict[str, Any]]:
    name = served_model(request)
    length = manager(request).model_config.context_length
    created = request.app.state.created
    adapters = [_card(adapter, path, name, None, created) for adapter, path in _adapters(args(request).lora_paths)]
    return [_card(name, name, None, length, created), *adapters]


def _card(name: str, root: str, parent: str | None, length: int | None, created: int) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "sglang",
        "root": root,
        "parent": parent,
        "max_model_len": length,
    }


def _adapters(paths: list[str] | None) -> list[tuple[str, str]]:
    """Name and path of each ``--lora-paths`` entry: PATH, NAME=PATH or a JSON object."""
    found = []
    for entry in paths or ():
        if entry.startswith("{"):
            record = json.loads(entry)
            found.append((str(record["lora_name"]), str(record["lora_path"])))
        else:
            name, equals, path = entry.partition("=")
            found.append((name, path if equals else name))
    return found
