"""Bodies of this family → the neutral chat request."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request

from sglang.api.chat.core import chat_core
from sglang.api.chat.request import ChatRequest
from sglang.api.chat.thinking import thinking_variables
from sglang.api.ollama.errors import ollama_error
from sglang.api.ollama.protocol import DEFAULT_BUDGET, AnswerFields, Message, OllamaChatRequest, Options, Tool
from sglang.api.work import DEFAULT_MODEL, args, served_model
from sglang.parsers.reasoning import ReasoningFormat

Plain = dict[str, Any]

_SAME = ("temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty")


def require_model(request: Request, name: str) -> str:
    """The served name. Raises 404 for a model that is not served here; the tag ``:latest`` may be left out or in."""
    served = served_model(request)
    known = {DEFAULT_MODEL, served, served.rsplit("/", 1)[-1], args(request).model_path}
    if name not in known and name.removesuffix(":latest") not in known:
        raise ollama_error(f"model {name[:200]!r} not found; this server serves {served!r}", 404)
    return served


def base_chat(request: Request, body: AnswerFields) -> ChatRequest:
    """Everything that does not depend on the route: sampling, format, thinking, logprobs."""
    form = chat_core(request).parsers.form
    return ChatRequest(
        messages=[],
        sampling=sampling(body.options or Options.model_validate({})),
        constraint=_constraint(body),
        reasoning_effort=body.think if isinstance(body.think, str) and _may_think(body, form) else None,
        template_kwargs=thinking_variables(body.think, form)
        if isinstance(body.think, bool) and _may_think(body, form) and form is not None
        else None,
        logprobs=body.logprobs,
        top_logprobs=body.top_logprobs or 0,
        stream=True,  # also for whole answers: the time of the first token is reported
    )


def _may_think(body: AnswerFields, form: ReasoningFormat | None) -> bool:
    """Whether the answer can follow ``think``. Raises 400 where it asks for what the model can't do."""
    if form is None and body.think:
        raise ollama_error(
            f"model {body.model[:200]!r} does not support thinking; leave think out, or start the server with "
            "--reasoning-parser"
        )
    return form is not None and body.think != ""


def sampling(options: Options) -> Plain:
    """Native names; only what the caller set."""
    given = {name: value for name in _SAME if (value := getattr(options, name)) is not None}
    budget = DEFAULT_BUDGET if options.num_predict is None else options.num_predict
    given["max_new_tokens"] = budget if budget >= 0 else None
    if options.top_k is not None:
        given["top_k"] = options.top_k if options.top_k > 0 else -1
    if options.repeat_penalty is not None:
        given["repetition_penalty"] = options.repeat_penalty
    if options.seed is not None and options.seed >= 0:
        given["sampling_seed"] = options.seed
    if options.stop:
        given["stop"] = options.stop
    return given


def _constraint(body: AnswerFields) -> tuple[str, str] | None:
    if not body.format and body.format != {}:
        return None
    if body.format == "json":
        return "json_schema", '{"type": "object"}'
    return "json_schema", json.dumps(body.format, ensure_ascii=False)


def to_chat(request: Request, body: OllamaChatRequest) -> ChatRequest:
    chat = base_chat(request, body)
    chat.messages = [_message(message) for message in body.messages]
    chat.tools = [_tool(tool) for tool in body.tools or ()]
    if chat.tools and chat_core(request).parsers.tool_format is None:
        raise ollama_error(
            f"model {body.model[:200]!r} does not support tools; leave tools out, or start the server with "
            "--tool-call-parser"
        )
    last = chat.messages[-1]
    chat.continue_final_message = last["role"] == "assistant" and bool(last["content"]) and "tool_calls" not in last
    chat.keep_final_role = True
    return chat


def _message(message: Message) -> Plain:
    plain: Plain = {"role": message.role, "content": with_images(message.content, message.images)}
    if message.thinking:
        plain["reasoning_content"] = message.thinking
    if message.tool_calls:
        plain["tool_calls"] = [
            {
                **({"id": call.id} if call.id else {}),
                "type": "function",
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in message.tool_calls
        ]
    if message.tool_name:
        plain["name"] = message.tool_name
    if message.tool_call_id:
        plain["tool_call_id"] = message.tool_call_id
    return plain


def with_images(text: str, images: list[str] | None) -> str | list[Plain]:
    """The content of a message: plain text, or parts where there are images."""
    if not images:
        return text
    parts: list[Plain] = [{"type": "text", "text": text}]
    parts += [{"type": "image_url", "image_url": {"url": f"data:image;base64,{image}"}} for image in images]
    return parts


def _tool(tool: Tool) -> Plain:
    return {"type": "function", "function": tool.function.model_dump(exclude_none=True)}
