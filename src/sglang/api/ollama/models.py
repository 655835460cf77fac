"""What is served: tags, show, ps, version. One model is always loaded and never unloaded."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from fastapi import Request, Response

from sglang.api.body import read_body
from sglang.api.chat.core import chat_core
from sglang.api.errors import json_response
from sglang.api.ollama.errors import ollama_error
from sglang.api.ollama.form import timestamp
from sglang.api.ollama.protocol import OllamaEmbedRequest, OllamaShowRequest
from sglang.api.ollama.translate import require_model
from sglang.api.work import manager, served_model
from sglang.version import __version__

Plain = dict[str, Any]

NEVER = "9999-12-31T23:59:59.000Z"
_WEIGHTS = (".gguf", ".safetensors", ".bin")


async def tags(request: Request) -> Response:
    """The one served model."""
    card = _card(request)
    card["modified_at"] = timestamp(_files(request)[1])
    return json_response({"models": [card]})


async def ps(request: Request) -> Response:
    """The models in memory: the one served model, for ever."""
    length = manager(request).model_config.context_length
    card = {**_card(request), "expires_at": NEVER, "size_vram": 0, "context_length": length}
    return json_response({"models": [card]})


async def show(request: Request) -> Response:
    """What is known of the served model."""
    body = await read_body(request, OllamaShowRequest)
    if not (body.model or body.name):
        raise ollama_error("model: is missing; send the name of a model")
    name = require_model(request, body.model or body.name)
    config = manager(request).model_config
    family = _family(request)
    return json_response(
        {
            "license": "",
            "modelfile": f"FROM {name}\nPARAMETER num_ctx {config.context_length}\n",
            "parameters": f"num_ctx {config.context_length}",
            "template": "",
            "modified_at": timestamp(_files(request)[1]),
            "details": _details(request),
            "model_info": {
                "general.architecture": family,
                "general.name": name,
                "general.parameter_count": 0,
                f"{family}.context_length": config.context_length,
                f"{family}.block_count": config.num_layers,
                f"{family}.embedding_length": config.hidden_size,
                f"{family}.attention.head_count": config.num_heads,
            },
            "capabilities": _capabilities(request),
        }
    )


async def version(request: Request) -> Response:
    """The version of this server."""
    return json_response({"version": __version__})


async def embed(request: Request) -> Response:
    """Embeddings are not served yet."""
    body = await read_body(request, OllamaEmbedRequest)
    name = require_model(request, body.model)
    raise ollama_error(f"model {name!r} does not support embeddings on this server; it generates text")


def _capabilities(request: Request) -> list[str]:
    parsers = chat_core(request).parsers
    able = {"completion": True, "tools": parsers.tool_format is not None, "thinking": parsers.form is not None}
    return [name for name, has in able.items() if has]


def _family(request: Request) -> str:
    return served_model(request).rstrip("/").rsplit("/", 1)[-1]


def _details(request: Request) -> Plain:
    family = _family(request)
    return {
        "parent_model": "",
        "format": "sglang",
        "family": family,
        "families": [family],
        "parameter_size": "unknown",
        "quantization_level": "",
    }


def _card(request: Request) -> Plain:
    name = served_model(request)
    size, modified = _files(request)
    path = manager(request).model_config.path
    digest = hashlib.sha256(f"{path}\n{size}\n{modified}".encode()).hexdigest()
    return {"name": name, "model": name, "size": size, "digest": digest, "details": _details(request)}


def _files(request: Request) -> tuple[int, float]:
    """Bytes of the weights and the time of their last change; zeros where they can't be looked at."""
    path = Path(manager(request).model_config.path)
    try:
        files = [path] if path.is_file() else [file for file in path.iterdir() if file.suffix in _WEIGHTS]
        stats = [file.stat() for file in files]
    except OSError:
        return 0, 0.0
    return sum(stat.st_size for stat in stats), max((stat.st_mtime for stat in stats), default=0.0)
