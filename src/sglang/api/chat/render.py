"""From chat messages to the token ids of a prompt."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from sglang.api.chat.request import ChatPrompt
from sglang.ipc.errors import InvalidRequest

if TYPE_CHECKING:
    from sglang.processes.tokenizer.manager import TokenizerManager
    from sglang.text.chat_template import ChatTemplate

LONG_TEXT = 50_000
"""Characters from which a prompt is tokenized in a thread, so that other requests don't notice."""

_DROPPED_PARTS = frozenset({"thinking", "reasoning"})


async def prompt_ids(tm: TokenizerManager, prompt: ChatPrompt) -> list[int]:
    """Token ids of the rendered prompt: exactly what the template writes, no special token added."""
    if tm.tokenizer is None:
        raise InvalidRequest("messages: this server runs without a tokenizer; send input_ids", "messages")
    if tm.chat_template is None:
        raise InvalidRequest(
            "messages: the model has no chat template; start the server with --chat-template, or use /v1/completions",
            "messages",
        )
    text = render(tm.chat_template, prompt)
    if len(text) < LONG_TEXT:
        return tm.tokenizer.encode(text, add_special_tokens=False)
    return await asyncio.to_thread(tm.tokenizer.encode, text, add_special_tokens=False)


def render(template: ChatTemplate, prompt: ChatPrompt) -> str:
    """The prompt text. Raises InvalidRequest with the template's own words where it refuses the messages."""
    if not prompt.messages:
        raise InvalidRequest("messages: must not be empty", "messages")
    messages = [_plain(message, template) for message in prompt.messages]
    opened = ""
    last = messages[-1]
    if last["role"] == "assistant" and isinstance(last.get("content"), str):
        if prompt.continue_final_message:
            opened = messages.pop()["content"]
        elif not prompt.keep_final_role:
            # The reference renders a trailing assistant message as one of the user; clients rely on the prompts.
            last["role"] = "user"
    normal = template.normalize_messages(messages)
    try:
        return _rendered(template, normal, prompt, prompt.tools) + opened
    except InvalidRequest:
        if prompt.tools is None:
            raise
        try:  # some templates take the functions without their wrapping
            return _rendered(template, normal, prompt, [tool["function"] for tool in prompt.tools]) + opened
        except InvalidRequest:
            pass
        raise


def _rendered(
    template: ChatTemplate, messages: list[dict[str, Any]], prompt: ChatPrompt, tools: list[dict[str, Any]] | None
) -> str:
    return template.render(
        messages, add_generation_prompt=prompt.add_generation_prompt, tools=tools, **prompt.template_kwargs
    )


def _plain(message: dict[str, Any], template: ChatTemplate) -> dict[str, Any]:
    """A copy that a text template can render: no media, no thoughts of earlier turns among the parts."""
    plain = dict(message)
    if plain["role"] == "developer" and "developer" not in template.source:
        plain["role"] = "system"  # the newer name of the same role
    content = plain.get("content")
    if isinstance(content, list):
        plain["content"] = [part for part in content if _is_text(part)]
    return plain


def _is_text(part: dict[str, Any]) -> bool:
    kind = part["type"]
    if kind != "text" and kind not in _DROPPED_PARTS:
        raise InvalidRequest(f"messages: the model takes text only; got a content part of type {kind!r}", "messages")
    return bool(kind == "text")
