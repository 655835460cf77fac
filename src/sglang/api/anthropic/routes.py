"""POST /v1/messages and POST /v1/messages/count_tokens."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from sglang.api.anthropic.answers import anthropic_responses
from sglang.api.anthropic.errors import PATH, exception_body
from sglang.api.anthropic.form import MessageForm
from sglang.api.anthropic.protocol import CountTokensRequest, MessagesRequest
from sglang.api.anthropic.stream import MessageWriter, message_events, refused_events
from sglang.api.anthropic.translate import add_sampling, to_chat
from sglang.api.auth import accepts_x_api_key
from sglang.api.body import body_doc, read_body
from sglang.api.chat.core import PromptRefused, chat_core, start_chat, whole_chat
from sglang.api.chat.request import ChatRequest
from sglang.api.chat.tools import check_tools
from sglang.api.errors import json_response
from sglang.api.streaming import EventStream, open_stream
from sglang.api.work import args
from sglang.ipc.errors import InvalidRequest

router = APIRouter(tags=["anthropic"])

_TRANSLATED = frozenset({"messages", "tools", "tool_choice", "thinking", "chat_template", "reasoning_effort"})
"""Fields whose errors are found while translating; the caller gets an HTTP status also when it asked for a stream."""


@router.post(PATH, responses=anthropic_responses(stream=True), openapi_extra=body_doc(MessagesRequest))
@accepts_x_api_key
async def messages(request: Request) -> Response:
    """Answer a conversation."""
    body = await read_body(request, MessagesRequest, json_only=True)
    chat = add_sampling(to_chat(request, body), body)
    form = MessageForm(body, args(request))
    if not body.stream:
        return json_response(form.answer(await whole_chat(request, chat)))
    return await _stream(request, chat, form)


async def _stream(request: Request, chat: ChatRequest, form: MessageForm) -> Response:
    try:
        run = await start_chat(request, chat)
    except InvalidRequest as error:
        if error.field in _TRANSLATED and not isinstance(error, PromptRefused):
            raise
        return EventStream(refused_events(form, chat.options["rid"], exception_body(error)))
    return await open_stream(request, message_events(run, MessageWriter(form, run)))


@router.post(f"{PATH}/count_tokens", responses=anthropic_responses(), openapi_extra=body_doc(CountTokensRequest))
@accepts_x_api_key
async def count_tokens(request: Request) -> Response:
    """How many tokens the prompt of a conversation has."""
    chat = to_chat(request, await read_body(request, CountTokensRequest, json_only=True))
    await check_tools(chat)
    return json_response({"input_tokens": len(await chat_core(request).prompt_ids(chat))})
