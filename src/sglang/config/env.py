"""Every environment variable the server reads, typed and checked in one place."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off", "")


@dataclass(frozen=True, slots=True)
class Env:
    """The environment as values. Field names are the variables' names in lower case, without ``SGLANG_``."""

    health_check_timeout: float = 20.0
    """Seconds a health check may take."""
    enable_health_endpoint_generation: bool = True
    """Whether /health generates a token (else it only reports that the server is up)."""
    timeout_keep_alive: int = 5
    """Seconds an idle HTTP connection stays open."""
    req_waiting_timeout: float = -1.0
    """Seconds a request may wait in the queue before it is answered 503; -1: for ever."""
    req_running_timeout: float = -1.0
    """Seconds a request may run before it is ended with 503; -1: for ever."""
    max_new_tokens_limit: int | None = None
    """Upper bound of ``max_new_tokens`` for every request."""
    clip_max_new_tokens_estimation: int = 4096
    """Longest remaining output that admission reckons with."""
    init_new_token_ratio: float = 0.7
    """Share of the requested output that admission reserves at first."""
    min_new_token_ratio_factor: float = 0.14
    """Where that share ends, relative to its start."""
    new_token_ratio_decay_steps: int = 600
    """Decode steps the decay takes."""
    prompt_share: float = 1.25
    """Prompt tokens computed in a step of running requests, as a share of their number (at least 32 tokens): how much
    longer such a step may take. 0: prompts are computed first, in large passes, while running requests wait."""
    retract_decode_steps: int = 20
    """Decode steps to leave room for after a retraction."""
    return_original_logprob: bool = False
    """Logprobs of the unscaled distribution (temperature ignored)."""
    detokenizer_max_states: int = 65536
    """Requests the detokenizer keeps in mind."""
    force_stream_interval: int = 50
    """Tokens after which a request that does not stream reports progress."""
    allow_overwrite_longer_context_len: bool = False
    """Accept a --context-length beyond the model's own."""
    disable_openapi_doc: bool = False
    """No /docs, /redoc and /openapi.json."""
    default_thinking: bool = False
    """Chats think unless they say otherwise, where the model has a switch called ``thinking``."""
    tool_strict_level: int = 0
    """From 1 on all tools count as strict: their calls are held to their schemas where the format allows it."""
    forward_unknown_tools: bool = False
    """Report calls of tools that a request did not offer instead of dropping them."""
    ollama_chat_route: str = "/api/chat"
    """Paths of the Ollama routes."""
    ollama_generate_route: str = "/api/generate"
    ollama_tags_route: str = "/api/tags"
    ollama_show_route: str = "/api/show"
    ollama_root_route: str | None = None
    """Path that greets with "Ollama is running" (the Ollama command line looks for it)."""
    aip_predict_route: str = "/vertex_generate"
    """Path of Vertex AI predictions."""


# Variables that do not start with SGLANG_.
_PLAIN_NAMES = {"disable_openapi_doc", "aip_predict_route"}


def variable_name(field: str) -> str:
    """``health_check_timeout`` → ``SGLANG_HEALTH_CHECK_TIMEOUT``."""
    return field.upper() if field in _PLAIN_NAMES else f"SGLANG_{field.upper()}"


def read_env(environ: Mapping[str, str] | None = None) -> Env:
    """The environment now. A value that can't be read is a ``ValueError`` that names the variable."""
    source = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    for field in fields(Env):
        name = variable_name(field.name)
        if name not in source:
            continue
        try:
            values[field.name] = _READERS[str(field.type)](source[name])
        except ValueError:
            raise ValueError(f"environment variable {name}={source[name]!r} is not a {field.type}.") from None
    return Env(**values)


def _read_bool(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError(text)


_READERS: dict[str, Callable[[str], Any]] = {
    "bool": _read_bool,
    "int": int,
    "int | None": int,
    "float": float,
    "str": str,
    "str | None": str,
}
