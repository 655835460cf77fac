"""How Ollama's own clients find out that a server is there."""

from __future__ import annotations

from fastapi import Request, Response
from starlette.responses import PlainTextResponse

from sglang.config.env import read_env


def greets_as_ollama(request: Request) -> bool:
    """Whether the root has to greet as Ollama does: to its own clients, or to all by SGLANG_OLLAMA_ROOT_ROUTE=/."""
    return request.headers.get("user-agent", "").lower().startswith("ollama") or read_env().ollama_root_route == "/"


async def greeting() -> Response:
    """The text that Ollama's command line looks for."""
    return PlainTextResponse("Ollama is running")
