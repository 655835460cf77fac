"""POST /v1/chat/completions: a translation of the chat core."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from sglang.api.answers import openai_responses
from sglang.api.body import body_doc, read_body
from sglang.api.chat.adapter import split_model
from sglang.api.chat.constraint import choose_constraint
from sglang.api.chat.core import start_chat, whole_chat
from sglang.api.chat.request import ChatRequest, ToolChoice
from sglang.api.errors import json_response, openai_error
from sglang.api.openai.chat_form import ChatForm
from sglang.api.openai.chat_stream import ChatWriter, stream_chat
from sglang.api.openai.protocol.chat import ChatCompletionRequest, ChatMessage, NamedToolChoice, Tool
from sglang.api.openai.submit import chat_options, openai_errors, refuse_fields, sampling_params, wants_usage
from sglang.api.work import args, manager

router = APIRouter(tags=["openai"])

_LATER = (
    "watermark", "return_routed_experts", "return_spec_tokens_details", "bootstrap_host", "return_sampling_mask",
    "sampling_logprobs_mode", "return_flat_raw_output_top_logprobs",
)  # fmt: skip


@router.post(
    "/v1/chat/completions", responses=openai_responses(stream=True), openapi_extra=body_doc(ChatCompletionRequest)
)
async def chat_completions(request: Request) -> Response:
    """Answer a conversation."""
    return await answer_chat(request, await read_body(request, ChatCompletionRequest, json_only=True))


async def answer_chat(request: Request, body: ChatCompletionRequest) -> Response:
    """The answer to a chat body, whole or as a stream."""
    with openai_errors():
        _check(body)
        form = ChatForm(manager(request), body, args(request), request.headers)
        chat = to_chat(request, body)
        if not body.stream:
            return json_response(form.answer(await whole_chat(request, chat)))
        run = await start_chat(request, chat)
    include_usage = wants_usage(body, args(request).stream_response_default_include_usage)
    return await stream_chat(request, run, ChatWriter(form, run, include_usage))


def _check(body: ChatCompletionRequest) -> None:
    refuse_fields(body, _LATER)
    if body.stream:
        for name in ("return_meta_info", "return_token_ids", "return_prompt_token_ids"):
            if getattr(body, name):
                raise openai_error(f"{name}: can't be combined with stream")


def to_chat(request: Request, body: ChatCompletionRequest) -> ChatRequest:
    """The neutral form of a body."""
    served = args(request).served_model_name or args(request).model_path
    return ChatRequest(
        messages=[message_dict(message) for message in body.messages],
        tools=tool_dicts(body.tools),
        tool_choice=tool_choice(body.tool_choice, bool(body.tools)),
        parallel_tool_calls=body.parallel_tool_calls,
        constraint=choose_constraint(body.response_format, body.regex, body.ebnf),
        sampling=sampling_params(body, body.token_budget),
        reasoning_effort=effort_of(body),
        separate_reasoning=body.separate_reasoning,
        stream_reasoning=body.stream_reasoning,
        template_kwargs=body.chat_template_kwargs,
        continue_final_message=body.continue_final_message,
        keep_final_role=body.keep_final_role or args(request).keep_final_role,
        input_ids=body.input_ids,
        adapter=split_model(body.model, served)[1] or body.lora_path,  # type: ignore[arg-type]
        logprobs=body.logprobs,
        top_logprobs=body.top_logprobs or 0,
        stream=body.stream,
        options=chat_options(request, body),
    )


def message_dict(message: ChatMessage) -> dict[str, Any]:
    """What templates see: role and content always, the other fields where they are set."""
    plain = message.model_dump(exclude_none=True)
    plain.setdefault("content", None)
    return plain


def tool_dicts(tools: list[Tool] | None) -> list[dict[str, Any]]:
    """The tools as they came."""
    return [tool.model_dump(exclude_none=True, exclude_unset=True) | {"type": "function"} for tool in tools or ()]


def tool_choice(choice: str | NamedToolChoice | None, has_tools: bool) -> ToolChoice:
    """Absent means auto with tools, none without."""
    if isinstance(choice, NamedToolChoice):
        return ToolChoice("named", choice.function.name)
    return ToolChoice(choice or ("auto" if has_tools else "none"))  # type: ignore[arg-type]


def effort_of(body: ChatCompletionRequest) -> str | float | None:
    """The flat field, else the nested form, whose switch alone means "medium" or "none"."""
    if body.reasoning_effort is not None or body.reasoning is None:
        return body.reasoning_effort
    nested = body.reasoning
    effort = nested.effort if nested.effort is not None else nested.reasoning_effort
    enabled = nested.enabled if nested.enabled is not None else nested.enable
    if enabled is False:
        return "none"
    return "medium" if effort is None and enabled else effort
