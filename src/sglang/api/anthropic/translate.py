"""Bodies of this family → the neutral chat request."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any, Literal

from fastapi import Request

from sglang.api.anthropic.messages import neutral_messages
from sglang.api.anthropic.protocol import MessagesRequest, PromptFields, Tool
from sglang.api.anthropic.thinking import past_thoughts, thinking_kwargs
from sglang.api.chat.core import chat_core
from sglang.api.chat.render import render
from sglang.api.chat.request import ChatPrompt, ChatRequest, ToolChoice
from sglang.api.work import args, manager
from sglang.ipc.errors import InvalidRequest

if TYPE_CHECKING:
    from sglang.text.chat_template import ChatTemplate

_MODES: dict[str, Literal["auto", "none", "required", "named"]] = {
    "auto": "auto", "any": "required", "tool": "named", "none": "none"
}  # fmt: skip
_OPTIONS = ("priority", "extra_key", "cache_salt", "routed_dp_rank", "data_parallel_rank")


def to_chat(request: Request, body: PromptFields) -> ChatRequest:
    """What decides the prompt; :func:`add_sampling` adds the rest."""
    template = manager(request).chat_template
    source = template.source if template is not None else ""
    form = chat_core(request).parsers.form
    messages = neutral_messages(
        body.system,
        body.messages,
        inline_system=_has_later_system(body) and template is not None and places_system_inline(template),
        thoughts=lambda text: past_thoughts(text, source, form),
    )
    last = messages[-1]
    prefilled = last["role"] == "assistant" and not last.get("tool_calls")
    return ChatRequest(
        messages=messages,
        tools=[_tool(tool) for tool in body.tools or () if tool.is_custom],
        tool_choice=_tool_choice(body),
        parallel_tool_calls=not (body.tool_choice and body.tool_choice.disable_parallel_tool_use),
        constraint=_constraint(body),
        reasoning_effort=_effort(body),
        template_kwargs=thinking_kwargs(body.thinking, form),
        continue_final_message=prefilled and bool(last["content"]),
        keep_final_role=True,
        adapter=_adapter(request, body.model),
    )


def add_sampling(chat: ChatRequest, body: MessagesRequest) -> ChatRequest:
    if body.bootstrap_host is not None:
        raise InvalidRequest("bootstrap_host is not supported yet; leave it out", "bootstrap_host")
    chat.sampling = {"max_new_tokens": body.max_tokens}
    for name, native in (("temperature",) * 2, ("top_p",) * 2, ("top_k",) * 2, ("stop_sequences", "stop")):
        if (value := getattr(body, name)) is not None:
            chat.sampling[native] = value
    chat.stream = body.stream
    chat.options = {name: value for name in _OPTIONS if (value := getattr(body, name)) is not None}
    chat.options["rid"] = body.rid or uuid.uuid4().hex
    return chat


def _has_later_system(body: PromptFields) -> bool:
    return any(message.role == "system" for message in body.messages[1:])


def places_system_inline(template: ChatTemplate) -> bool:
    """Whether the template writes a system message that stands between other turns."""
    mark = uuid.uuid4().hex
    middle = [{"role": "system", "content": mark}]
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    try:
        text = render(template, ChatPrompt(turns + middle + turns[:1]))
    except InvalidRequest:
        return False
    return text.count(mark) == 1


def _tool(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    function["parameters"] = tool.input_schema
    function["strict"] = bool(tool.strict)  # templates show it, also where it was left out
    return {"type": "function", "function": function}


def _tool_choice(body: PromptFields) -> ToolChoice:
    if body.tool_choice is None:
        return ToolChoice("auto")
    return ToolChoice(_MODES[body.tool_choice.type], body.tool_choice.name)


def _constraint(body: PromptFields) -> tuple[str, str] | None:
    form = (body.output_config.format if body.output_config else None) or body.output_format
    return None if form is None else ("json_schema", json.dumps(form.schema_, ensure_ascii=False))


def _effort(body: PromptFields) -> str | None:
    effort = body.output_config.effort if body.output_config else None
    if body.thinking is not None and body.thinking.type == "disabled":
        return None  # the effort of an answer without thoughts is nothing that a template knows
    return "max" if effort == "xhigh" else effort


def _adapter(request: Request, model: str) -> str | None:
    """Model names are not checked here; only ``<served name>:<adapter>`` means an adapter."""
    served = args(request).served_model_name or args(request).model_path
    return model[len(served) + 1 :] or None if model.startswith(served + ":") else None
