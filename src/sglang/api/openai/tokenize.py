"""Text to token ids and back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from sglang.api.answers import openai_responses
from sglang.api.body import body_doc, read_body
from sglang.api.chat.core import chat_core
from sglang.api.chat.request import ChatRequest
from sglang.api.errors import json_response, openai_error
from sglang.api.openai.chat import message_dict, tool_choice, tool_dicts
from sglang.api.openai.protocol.tokenize import DetokenizeRequest, TokenizeRequest
from sglang.api.openai.submit import openai_errors
from sglang.api.work import manager

if TYPE_CHECKING:
    from sglang.text.tokenizer import Tokenizer

router = APIRouter(tags=["openai"], responses=openai_responses())


@router.post("/v1/tokenize", openapi_extra=body_doc(TokenizeRequest))
@router.post("/tokenize", openapi_extra=body_doc(TokenizeRequest))
async def tokenize(request: Request) -> Response:
    """Token ids of a prompt, a list of prompts, or a rendered conversation."""
    body = await read_body(request, TokenizeRequest, json_only=True)
    with openai_errors():
        tokens = await _tokenize(request, body)
    count = [len(ids) for ids in tokens] if isinstance(body.prompt, list) else len(tokens)  # type: ignore[arg-type]
    limit = manager(request).model_config.context_length
    return json_response({"tokens": tokens, "count": count, "max_model_len": limit})


async def _tokenize(request: Request, body: TokenizeRequest) -> list[int] | list[list[int]]:
    if body.messages is not None:
        return await chat_core(request).prompt_ids(_chat(body), body.add_generation_prompt is not False)
    tokenizer = _tokenizer(request)
    # In a thread: a long text takes seconds, and the tokenizer lets other threads run.
    if isinstance(body.prompt, str):
        return await asyncio.to_thread(tokenizer.encode, body.prompt, add_special_tokens=body.add_special_tokens)
    texts = body.prompt or []
    return await asyncio.to_thread(tokenizer.encode_batch, texts, add_special_tokens=body.add_special_tokens)


def _chat(body: TokenizeRequest) -> ChatRequest:
    return ChatRequest(
        messages=[message_dict(message) for message in body.messages or ()],
        tools=tool_dicts(body.tools),
        tool_choice=tool_choice(body.tool_choice, bool(body.tools)),
        reasoning_effort=body.reasoning_effort,
        template_kwargs=body.chat_template_kwargs,
        continue_final_message=body.continue_final_message,
    )


@router.post("/v1/detokenize", openapi_extra=body_doc(DetokenizeRequest))
@router.post("/detokenize", openapi_extra=body_doc(DetokenizeRequest))
async def detokenize(request: Request) -> Response:
    """Text of token ids, one list or several."""
    body = await read_body(request, DetokenizeRequest, json_only=True)
    tokenizer = _tokenizer(request)
    single = not body.tokens or isinstance(body.tokens[0], int)
    batch: list[list[int]] = [body.tokens] if single else body.tokens  # type: ignore[list-item,assignment]
    size = manager(request).model_config.vocab_size
    for ids in batch:
        if bad := [token for token in ids if not 0 <= token < size]:
            raise openai_error(f"tokens: {bad[0]} is outside the vocabulary; ids go from 0 to {size - 1}")
    texts = await asyncio.to_thread(_decode, tokenizer, batch, body.skip_special_tokens)
    return json_response({"text": texts[0] if single else texts})


def _decode(tokenizer: Tokenizer, batch: list[list[int]], skip_special_tokens: bool) -> list[str]:
    return [tokenizer.decode(ids, skip_special_tokens=skip_special_tokens) for ids in batch]


def _tokenizer(request: Request) -> Tokenizer:
    tokenizer = manager(request).tokenizer
    if tokenizer is None:
        raise openai_error("this server runs without a tokenizer (--skip-tokenizer-init)")
    return tokenizer
