"""POST /v1/chat/completions."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from sglang.api.answers import openai_responses
from sglang.api.body import body_doc, read_body
from sglang.api.chat.render import prompt_ids
from sglang.api.chat.request import ChatPrompt, merge_template_kwargs
from sglang.api.errors import json_response, openai_error
from sglang.api.openai.chat_form import ChatForm, ChatWriter
from sglang.api.openai.protocol.chat import ChatCompletionRequest, ChatMessage
from sglang.api.openai.stream import stream_answer
from sglang.api.openai.submit import openai_errors, refuse_later_features, sampling_params, to_input, wants_usage
from sglang.api.streaming import unless_disconnected
from sglang.api.work import args, manager, run
from sglang.ipc.inputs import GenerateReqInput

router = APIRouter(tags=["openai"])

_LATER = ("return_sampling_mask", "sampling_logprobs_mode", "return_flat_raw_output_top_logprobs")
_GENERATION_DEFAULTS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


@router.post(
    "/v1/chat/completions", responses=openai_responses(stream=True), openapi_extra=body_doc(ChatCompletionRequest)
)
async def chat_completions(request: Request) -> Response:
    """Answer a conversation."""
    body = await read_body(request, ChatCompletionRequest, json_only=True)
    tm = manager(request)
    with openai_errors():
        _check(body)
        form = ChatForm(tm, body, args(request), request.headers)
        obj = await _to_input(request, body)
        if not body.stream:
            return json_response(form.answer(await run(request, obj)))
        group = await unless_disconnected(request.receive, tm.submit(obj))
    include_usage = wants_usage(body, args(request).stream_response_default_include_usage)
    return await stream_answer(request, group, ChatWriter(form, group, include_usage))


def _check(body: ChatCompletionRequest) -> None:
    refuse_later_features(body, _LATER)
    choice = body.tool_choice
    if not body.tools and choice is not None and choice not in ("none", "auto"):
        raise openai_error("tool_choice: tools can't be empty when a tool call is demanded")
    if body.tools and choice != "none":
        raise openai_error("tools: tool calls are not supported yet; leave tools out or set tool_choice to 'none'")
    if body.stream:
        for name in ("return_meta_info", "return_token_ids", "return_prompt_token_ids"):
            if getattr(body, name):
                raise openai_error(f"{name}: can't be combined with stream")


async def _to_input(request: Request, body: ChatCompletionRequest) -> GenerateReqInput:
    tm = manager(request)
    sampling = sampling_params(body, body.token_budget)
    if args(request).sampling_defaults == "model":
        recommended = tm.model_config.generation_config
        sampling |= {
            name: recommended[name] for name in _GENERATION_DEFAULTS if name in recommended and name not in sampling
        }
    obj = to_input(request, body, sampling)
    if body.input_ids is not None:
        obj.input_ids = body.input_ids
    else:
        obj.input_ids = await prompt_ids(tm, chat_prompt(body, args(request).default_chat_template_kwargs))
    if body.logprobs:
        obj.return_logprob = True
        obj.top_logprobs_num = body.top_logprobs or 0
    return obj


def chat_prompt(body: ChatCompletionRequest, server_kwargs: dict[str, Any] | None) -> ChatPrompt:
    return ChatPrompt(
        messages=[message_dict(message) for message in body.messages],
        template_kwargs=merge_template_kwargs(server_kwargs, body.chat_template_kwargs, _effort(body)),
        continue_final_message=body.continue_final_message,
    )


def message_dict(message: ChatMessage) -> dict[str, Any]:
    """What templates see: role and content always, the other fields where they are set."""
    plain = message.model_dump(exclude_none=True)
    plain.setdefault("content", None)
    return plain


def _effort(body: ChatCompletionRequest) -> str | float | None:
    """The flat field, else the nested form, whose switch alone means "medium" or "none"."""
    if body.reasoning_effort is not None or body.reasoning is None:
        return body.reasoning_effort
    nested = body.reasoning
    effort = nested.effort if nested.effort is not None else nested.reasoning_effort
    enabled = nested.enabled if nested.enabled is not None else nested.enable
    if enabled is False:
        return "none"
    return "medium" if effort is None and enabled else effort
