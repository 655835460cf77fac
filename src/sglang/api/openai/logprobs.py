"""Log probabilities in the two OpenAI forms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sglang.ipc.errors import InvalidRequest
from sglang.ipc.messages import LogprobDelta

if TYPE_CHECKING:
    from sglang.processes.tokenizer.manager import TokenizerManager
    from sglang.text.tokenizer import Tokenizer

LOWEST = -9999.0
"""Stands for minus infinity, which JSON can't hold."""


def require_tokenizer(tm: TokenizerManager) -> Tokenizer:
    if tm.tokenizer is None:
        raise InvalidRequest("logprobs: this server runs without a tokenizer; use /generate", "logprobs")
    return tm.tokenizer


def token_name(raw: bytes) -> str:
    """A token's text; bytes that are no whole characters appear as one latin-1 character each."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def completion_logprobs(tokenizer: Tokenizer, new: LogprobDelta, top: int, *, prompt: bool) -> dict[str, Any]:
    """Object of four parallel lists; ``prompt`` puts the prompt's entries first (echo)."""
    values: list[float | None] = [*(new.input_val if prompt else ()), *new.output_val]
    ids = [*(new.input_idx if prompt else ()), *new.output_idx]
    tops: list[dict[str, float] | None] = []
    if top > 0:
        if prompt:
            tops += _top_dicts(tokenizer, new.input_top_val, new.input_top_idx)
        tops += _top_dicts(tokenizer, new.output_top_val, new.output_top_idx)
    return {
        "text_offset": [-1] * len(values),
        "token_logprobs": [None if value is None else max(value, LOWEST) for value in values],
        "tokens": [token_name(tokenizer.token_bytes(token)) for token in ids],
        "top_logprobs": tops,
    }


def _top_dicts(
    tokenizer: Tokenizer, values: Iterable[list[float] | None], ids: Iterable[list[int] | None]
) -> list[dict[str, float] | None]:
    return [
        None
        if value is None or token is None
        else {token_name(tokenizer.token_bytes(t)): max(v, LOWEST) for t, v in zip(token, value, strict=True)}
        for value, token in zip(values, ids, strict=True)
    ]


def chat_logprobs(tokenizer: Tokenizer, new: LogprobDelta, top: int) -> dict[str, Any]:
    """``{"content": [one entry a generated token]}``, each with its own alternatives."""
    content = []
    for position, (value, token) in enumerate(zip(new.output_val, new.output_idx, strict=True)):
        entry = _chat_entry(tokenizer, value, token)
        entry["top_logprobs"] = _chat_top(tokenizer, new, position) if top > 0 else []
        content.append(entry)
    return {"content": content}


def _chat_top(tokenizer: Tokenizer, new: LogprobDelta, position: int) -> list[dict[str, Any]]:
    values, ids = new.output_top_val[position], new.output_top_idx[position]
    if values is None or ids is None:
        return []
    return [_chat_entry(tokenizer, value, token) for value, token in zip(values, ids, strict=True)]


def _chat_entry(tokenizer: Tokenizer, value: float, token: int) -> dict[str, Any]:
    raw = tokenizer.token_bytes(token)
    return {"token": token_name(raw), "bytes": list(raw), "logprob": max(value, LOWEST)}
