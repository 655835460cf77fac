"""What is being served, and how."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import APIRouter, Request, Response

from sglang.api.answers import info_responses
from sglang.api.errors import json_response
from sglang.api.ollama.probe import greeting, greets_as_ollama
from sglang.api.work import args, manager

router = APIRouter(tags=["info"], responses=info_responses())
logger = logging.getLogger(__name__)


@router.get("/")
@router.head("/", include_in_schema=False)
async def root(request: Request) -> Response:
    """A greeting for humans and simple checks; Ollama's clients get the one that they look for."""
    if greets_as_ollama(request):
        return await greeting()
    return json_response("SGLang is running")


@router.get("/model_info")
async def model_info(request: Request) -> Response:
    """The model's path, name, kind and architecture."""
    return json_response(manager(request).model_info())


@router.get("/get_model_info", deprecated=True)
async def get_model_info(request: Request) -> Response:
    """Older name of /model_info."""
    logger.warning("/get_model_info is deprecated; use /model_info")
    return await model_info(request)


@router.get("/server_info")
async def server_info(request: Request) -> Response:
    """Every server argument (secrets hidden), the scheduler's sizes and the state of each rank."""
    return json_response(await manager(request).server_info())


@router.get("/get_server_info", deprecated=True)
async def get_server_info(request: Request) -> Response:
    """Older name of /server_info."""
    logger.warning("/get_server_info is deprecated; use /server_info")
    return await server_info(request)


@router.get("/get_server_args")
async def get_server_args(request: Request) -> Response:
    """The server arguments alone (secrets hidden)."""
    info = await manager(request).server_info()
    names: dict[str, Any] = vars(args(request))
    return json_response({name: info[name] for name in names if name in info})


@router.get("/get_memory_pool_size")
async def get_memory_pool_size(request: Request) -> Response:
    """Size of the KV pool in tokens."""
    return json_response(manager(request).scheduler_info.get("max_total_num_tokens"))
