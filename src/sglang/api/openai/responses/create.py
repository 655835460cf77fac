"""From a body of POST /v1/responses to a chat, and to the answer in the form that was asked for."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

from fastapi import Request, Response

from sglang.api.chat.adapter import split_model
from sglang.api.chat.constraint import format_constraint
from sglang.api.chat.core import start_chat
from sglang.api.chat.request import ChatRequest
from sglang.api.chat.run import ChatRun
from sglang.api.errors import json_response
from sglang.api.openai.models import model_not_found
from sglang.api.openai.protocol.responses import ResponsesRequest
from sglang.api.openai.responses.assemble import LOGPROBS, Assembler
from sglang.api.openai.responses.form import ResponseForm, effort_of
from sglang.api.openai.responses.history import resolved, with_ids
from sglang.api.openai.responses.input import input_items, to_messages
from sglang.api.openai.responses.live import LiveResponse, encode
from sglang.api.openai.responses.store import ResponseStore, StoredResponse, check_id
from sglang.api.openai.responses.tools import functions, tool_choice
from sglang.api.openai.submit import routing_rank
from sglang.api.openai.wrapped import wrapped_error
from sglang.api.streaming import EventStream, open_stream, unless_disconnected
from sglang.api.work import DEFAULT_MODEL, args, manager, served_model

DEFAULT_TEMPERATURE = 0.7
"""Of this route alone, where neither the request nor the model nor the server says otherwise."""
STORE_HELP = "needs stored responses; start the server with --enable-response-store"

_SAMPLING = (
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "frequency_penalty", "presence_penalty", "stop",
)  # fmt: skip
_OPTIONS = ("session_id", "priority", "extra_key", "cache_salt", "routed_dp_rank", "data_parallel_rank")


def store_of(request: Request) -> ResponseStore | None:
    """None where the server remembers nothing."""
    return cast("ResponseStore | None", request.app.state.responses)


def owner_of(request: Request) -> str:
    """Stands for the key that a caller shows: responses are there for the same key only."""
    return hashlib.sha256(request.headers.get("authorization", "").encode()).hexdigest()


async def answer(request: Request, body: ResponsesRequest) -> Response:
    """Raises ApiError, InvalidRequest or RequestAborted before anything was sent."""
    model = _check(request, body)
    earlier = _earlier(request, body)
    history = [*earlier, *with_ids(_new_items(request, body))]
    form = ResponseForm(body, model)
    store = store_of(request) if body.store else None
    if store is not None:
        store.check_free(form.id)
        if body.background:
            store.check_background()
    chat = to_chat(request, body, history)
    chat.options["rid"] = form.id
    run = await start_chat(request, chat)
    assembler = Assembler(form, manager(request).tokenizer, run.parses_tools)
    if store is None:
        return await _send(request, body, LiveResponse(run, assembler))
    entry = StoredResponse(form.id, owner_of(request), history, len(history))
    entry.live = LiveResponse(run, assembler, lambda final: store.settle(entry, final))
    _add(store, entry, run)
    if body.background:
        return _send_background(body, entry, entry.live)
    return await _send(request, body, entry.live)


def _add(store: ResponseStore, entry: StoredResponse, run: ChatRun) -> None:
    try:
        store.add(entry)
    except Exception:
        run.group.abort()
        raise


async def _send(request: Request, body: ResponsesRequest, live: LiveResponse) -> Response:
    if body.stream:
        return await open_stream(request, _events(live))
    return json_response(await unless_disconnected(request.receive, live.whole()))


async def _events(live: LiveResponse) -> AsyncGenerator[bytes, None]:
    async with aclosing(live.steps()) as steps:
        async for step in steps:
            yield b"".join(map(encode, step))


def _send_background(body: ResponsesRequest, entry: StoredResponse, live: LiveResponse) -> Response:
    if body.stream:
        entry.events = []
    first = live.response
    entry.task = asyncio.ensure_future(_run_alone(entry, live))
    return EventStream(entry.follow()) if body.stream else json_response(first)


async def _run_alone(entry: StoredResponse, live: LiveResponse) -> None:
    async with aclosing(live.steps(queued=True)) as steps:
        async for step in steps:
            if entry.events is not None:
                entry.tell([encode(event) for event in step])


# ------------------------------------------------------------------ the request


def _check(request: Request, body: ResponsesRequest) -> str:
    """Refuse what can't be done here; returns the name of the model that answers."""
    served = served_model(request)
    model = served if body.model in (None, "", DEFAULT_MODEL) else body.model
    if split_model(model, served)[0] != served:
        raise model_not_found(model, served, 404)
    for field in ("conversation", "prompt"):
        if getattr(body, field) is not None:
            raise wrapped_error(f"{field}: not supported; send input, instructions or previous_response_id", 400, field)
    if body.background and not body.store:
        raise wrapped_error("background: needs store to be true", 400, "background")
    if store_of(request) is None:
        for field in ("background", "previous_response_id"):
            if getattr(body, field):
                raise wrapped_error(f"{field}: {STORE_HELP}", 400, field)
    return model


def _earlier(request: Request, body: ResponsesRequest) -> list[dict[str, Any]]:
    """The items of the conversation that the request goes on with."""
    name, store = body.previous_response_id, store_of(request)
    if name is None or store is None:
        return []
    check_id(name, "previous_response_id")
    entry = store.get(name, owner_of(request))
    if (status := entry.response["status"]) not in ("completed", "incomplete"):
        text = f"previous_response_id: response {name!r} is {status}; only a finished answer can be gone on with"
        raise wrapped_error(text, 400, "previous_response_id")
    return entry.history


def _new_items(request: Request, body: ResponsesRequest) -> list[dict[str, Any]]:
    """The items of the request itself, those that it only refers to among them."""

    def known() -> dict[str, dict[str, Any]]:
        store = store_of(request)
        if store is None:
            raise wrapped_error(f"input: item_reference {STORE_HELP}", 400, "input")
        return store.items(owner_of(request))

    return resolved(input_items(body.input), known)


def to_chat(request: Request, body: ResponsesRequest, history: list[dict[str, Any]]) -> ChatRequest:
    """The neutral form of a body."""
    tools = functions(body)
    options = {name: value for name in _OPTIONS if (value := getattr(body, name)) is not None}
    if (rank := routing_rank(request)) is not None:
        options["routed_dp_rank"] = rank
    return ChatRequest(
        messages=to_messages(body.instructions, history),
        tools=tools,
        tool_choice=tool_choice(body, tools),
        parallel_tool_calls=body.parallel_tool_calls,
        constraint=format_constraint(body.text.format if body.text is not None else None),
        sampling=_sampling(request, body),
        reasoning_effort=effort_of(body),
        template_kwargs=body.chat_template_kwargs,
        keep_final_role=args(request).keep_final_role,
        adapter=split_model(body.model, served_model(request))[1] if body.model else None,
        logprobs=body.wants(LOGPROBS),
        top_logprobs=body.top_logprobs,
        stream=body.stream,
        background=body.background,
        options=options,
    )


def _sampling(request: Request, body: ResponsesRequest) -> dict[str, Any]:
    given = {name: getattr(body, name) for name in _SAMPLING if name in body.model_fields_set}
    given["max_new_tokens"] = body.max_output_tokens
    if "seed" in body.model_fields_set:
        given["sampling_seed"] = body.seed
    server = args(request)
    known = dict(server.preferred_sampling_params or {})
    if server.sampling_defaults == "model":
        known.update(manager(request).model_config.generation_config)
    if "temperature" not in known:
        given.setdefault("temperature", DEFAULT_TEMPERATURE)
    return given
