"""SGLang's serving interfaces, implemented independently. Importing is light: names resolve on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sglang.version import __version__ as __version__

if TYPE_CHECKING:
    from sglang.config.server_args import ServerArgs as ServerArgs
    from sglang.engine.engine import Engine as Engine

__all__ = ["Engine", "ServerArgs", "__version__"]

# Public name → where it lives.
_HOMES = {"Engine": "sglang.engine.engine", "ServerArgs": "sglang.config.server_args"}

# Names of the frontend language and its backends; known, so that the error can say more than "no attribute".
_NOT_YET = frozenset(
    (
        "Runtime",
        "RuntimeEndpoint",
        "OpenAI",
        "Anthropic",
        "LiteLLM",
        "VertexAI",
        "Crusoe",
        "function",
        "gen",
        "gen_int",
        "gen_string",
        "select",
        "image",
        "video",
        "system",
        "user",
        "assistant",
        "system_begin",
        "system_end",
        "user_begin",
        "user_end",
        "assistant_begin",
        "assistant_end",
        "separate_reasoning",
        "set_default_backend",
        "flush_cache",
        "get_server_info",
        "global_config",
        "greedy_token_selection",
        "token_length_normalized",
        "unconditional_likelihood_normalized",
    )
)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _NOT_YET:
        raise AttributeError(f"sglang.{name} is not available yet; use sglang.Engine or the HTTP server.")
    raise AttributeError(f"module 'sglang' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
