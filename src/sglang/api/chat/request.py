"""A chat request without the habits of any family.

A family translates its body into one :class:`ChatRequest` and the answer's events into its own shape; rendering,
constraints, parsing, counting and finish reasons happen once, in this folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

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
    keep_final_role: bool = False
    """A trailing assistant message stays one; otherwise it is rendered as one of the user."""


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether the model may or must call tools. ``name`` belongs to mode "named" alone."""

    mode: Literal["auto", "none", "required", "named"] = "auto"
    name: str | None = None


@dataclass(slots=True)
class ChatRequest:
    """One conversation to answer, in neutral form."""

    messages: list[dict[str, Any]]
    """``role`` (system, user, assistant, tool, ...), ``content`` (str, list of ``{"type": "text", "text": ...}`` or
    None) and where they apply ``tool_calls`` (``{"id", "type": "function", "function": {"name", "arguments"}}``,
    arguments as JSON text or object), ``tool_call_id``, ``name``, ``reasoning_content``."""
    tools: list[dict[str, Any]] = field(default_factory=list)
    """``{"type": "function", "function": {"name", "description", "parameters", "strict"}}``; checked by the core."""
    tool_choice: ToolChoice = ToolChoice()
    parallel_tool_calls: bool = True
    constraint: tuple[str, str] | None = None
    """A grammar for the answer: ("json_schema" | "regex" | "ebnf" | "structural_tag", its text);
    see :func:`sglang.api.chat.constraint.format_constraint`."""
    sampling: dict[str, Any] = field(default_factory=dict)
    """Native names (``max_new_tokens``, ``sampling_seed``, ``n``, ...); only what the caller set."""
    model_defaults: bool = True
    """Fill in what the caller left open from the model's generation_config (where the server's flags say so)."""
    reasoning_effort: str | float | None = None
    """One of :data:`EFFORTS` or 0 ... 0.99; "none" switches thinking off."""
    separate_reasoning: bool = True
    """Thoughts become ReasoningDelta events; otherwise they stay in the text, markers and all."""
    stream_reasoning: bool = True
    """Otherwise thoughts come in one piece, when they end."""
    template_kwargs: dict[str, Any] | None = None
    continue_final_message: bool = False
    keep_final_role: bool = False
    input_ids: list[int] | None = None
    """Use these instead of rendering the messages."""
    adapter: str | None = None
    """LoRA adapter; see :func:`sglang.api.chat.adapter.split_model`."""
    logprobs: bool = False
    top_logprobs: int = 0
    stream: bool = False
    background: bool = False
    """The work goes on when the client leaves."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further fields of :class:`GenerateReqInput`: rid, priority, extra_key, cache_salt, ..."""


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
