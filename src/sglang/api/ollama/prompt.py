"""The prompt of /api/generate: raw, around a gap, by the request's template or by the model's chat template."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

from fastapi import Request

from sglang.api.chat.core import chat_core
from sglang.api.chat.render import LONG_TEXT, render
from sglang.api.chat.request import ChatPrompt, ChatRequest, merge_template_kwargs
from sglang.api.ollama.protocol import OllamaGenerateRequest
from sglang.api.ollama.template import fill, names
from sglang.api.ollama.translate import with_images
from sglang.api.openai.completion_template import BUILT_IN, CompletionTemplate
from sglang.api.work import args, manager
from sglang.ipc.errors import InvalidRequest

if TYPE_CHECKING:
    from sglang.text.chat_template import ChatTemplate
    from sglang.text.tokenizer import Tokenizer


async def prompt_ids(request: Request, body: OllamaGenerateRequest, chat: ChatRequest) -> list[int]:
    """Token ids of the prompt. ``chat`` brings the template variables. Raises InvalidRequest."""
    tm = manager(request)
    if tm.tokenizer is None:
        raise InvalidRequest("prompt: this server runs without a tokenizer; use /generate with input_ids", "prompt")
    context = list(body.context or ())
    if (text := plain_text(request, body)) is not None:
        _refuse_images(body)
        return context + await _encode(tm.tokenizer, text, add_special_tokens=not context)
    chat.messages = [{"role": "system", "content": body.system}] if body.system else []
    chat.messages.append({"role": "user", "content": with_images(body.prompt, body.images)})
    if not context:
        return await chat_core(request).prompt_ids(chat)
    assert tm.chat_template is not None
    server = args(request).default_chat_template_kwargs
    variables = merge_template_kwargs(server, chat.template_kwargs, chat.reasoning_effort)
    text = next_turn(tm.chat_template, chat.messages, variables)
    ids = await _encode(tm.tokenizer, text, add_special_tokens=False)
    if ids[:1] == context[-1:]:  # an answer that came to its end holds the token that ends it
        ids = ids[1:]
    return context + ids


def plain_text(request: Request, body: OllamaGenerateRequest) -> str | None:
    """The prompt text where the chat template has no part in it; None otherwise."""
    if body.raw:
        if body.template or body.system or body.context:
            raise InvalidRequest("raw: can't be combined with template, system or context", "raw")
        return fill_gap(request, body) if body.suffix else body.prompt
    if body.template:
        if body.suffix and not names(body.template, "Suffix"):
            raise InvalidRequest("suffix: the template has no place for it ({{ .Suffix }})", "suffix")
        return fill(body.template, {"System": body.system, "Prompt": body.prompt, "Suffix": body.suffix})
    if body.suffix:
        return fill_gap(request, body)
    if manager(request).chat_template is None:
        return f"{body.system}\n\n{body.prompt}" if body.system else body.prompt
    return None


def fill_gap(request: Request, body: OllamaGenerateRequest) -> str:
    """Prompt and suffix around the gap that the model fills."""
    template = request.app.state.completion_template or known_gap(manager(request).tokenizer)
    if template is None:
        raise InvalidRequest(
            f"suffix: model {body.model[:200]!r} does not support insert; start the server with "
            "--completion-template, or send a template that has a place for {{ .Suffix }}",
            "suffix",
        )
    return str(template.fill(body.prompt, body.suffix))


def known_gap(tokenizer: Tokenizer | None) -> CompletionTemplate | None:
    """The built-in template whose three markers are tokens of this model."""
    if tokenizer is None:
        return None
    for template in BUILT_IN.values():
        markers = (template.before, template.between, template.after)
        if all(tokenizer.special_token_id(marker) is not None for marker in markers):
            return template
    return None


def next_turn(template: ChatTemplate, messages: list[dict[str, Any]], variables: dict[str, Any]) -> str:
    """What the template writes behind an answer: the end of that turn and the messages of the next one."""
    mark = uuid.uuid4().hex
    before = [{"role": "user", "content": "x"}, {"role": "assistant", "content": mark}]
    _, found, text = render(template, ChatPrompt(before + messages, variables)).partition(mark)
    if not found:
        raise InvalidRequest("context: the model's chat template can't continue an earlier answer", "context")
    return text


async def _encode(tokenizer: Tokenizer, text: str, add_special_tokens: bool) -> list[int]:
    if len(text) < LONG_TEXT:
        return tokenizer.encode(text, add_special_tokens=add_special_tokens)
    return await asyncio.to_thread(tokenizer.encode, text, add_special_tokens=add_special_tokens)


def _refuse_images(body: OllamaGenerateRequest) -> None:
    if body.images:
        raise InvalidRequest("images: the model takes text only; leave images out", "images")
