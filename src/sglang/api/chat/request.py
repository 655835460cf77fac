"""A chat request without the habits of any family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sglang.ipc.errors import InvalidRequest

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "ultra", "max")

_RESERVED = frozenset({"self", "messages", "tools", "add_generation_prompt"})


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """What to render. Messages are plain dicts: role, content (text, parts or None) and optional extras."""

    messages: list[dict[str, Any]]
    template_kwargs: dict[str, Any] = field(default_factory=dict)
    tools: list[dict[str, Any]] | None = None
    continue_final_message: bool = False
    """Go on writing the last (assistant) message instead of opening a new one."""
    add_generation_prompt: bool = True


def merge_template_kwargs(
    server: Mapping[str, Any] | None, request: Mapping[str, Any] | None, effort: str | float | None = None
) -> dict[str, Any]:
    """Template variables: the server's defaults, the request's own above them, thinking flags from the effort."""
    merged = {**(server or {}), **(request or {})}
    if "chat_template" in merged:
        raise InvalidRequest(
            "chat_template_kwargs: a request can't bring its own chat_template", "chat_template_kwargs"
        )
    if taken := _RESERVED & merged.keys():
        raise InvalidRequest(f"chat_template_kwargs: the name {min(taken)!r} is taken", "chat_template_kwargs")
    if effort is not None:
        thinking = _check_effort(effort) != "none"
        for name in ("thinking", "enable_thinking"):
            merged[name] = merged.get(name, True) if thinking else False
        merged.setdefault("reasoning_effort", effort)
    return merged


def _check_effort(effort: str | float) -> str | float:
    good = effort in EFFORTS if isinstance(effort, str) else 0 <= effort <= 0.99
    if not good:
        accepted = f"{', '.join(EFFORTS)} or a number from 0 to 0.99"
        raise InvalidRequest(f"reasoning_effort: must be {accepted}; got {effort!r}", "reasoning_effort")
    return effort
