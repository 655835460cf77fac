"""The routes. Some of their paths can be renamed by the environment."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from sglang.api.answers import Responses
from sglang.api.body import body_doc, read_body
from sglang.api.ollama import models
from sglang.api.ollama.answer import LINES, respond, respond_at_once
from sglang.api.ollama.answers import ollama_responses
from sglang.api.ollama.form import AnswerForm
from sglang.api.ollama.probe import greeting
from sglang.api.ollama.prompt import prompt_ids
from sglang.api.ollama.protocol import (
    OllamaChatRequest,
    OllamaEmbedRequest,
    OllamaGenerateRequest,
    OllamaShowRequest,
)
from sglang.api.ollama.translate import base_chat, require_model, to_chat
from sglang.config.env import Env


async def chat(request: Request) -> Response:
    """Answer a conversation. Without messages nothing runs."""
    body = await read_body(request, OllamaChatRequest)
    form = AnswerForm(request, body, require_model(request, body.model), "chat")
    if not body.messages:
        return respond_at_once(form, body.unloads, body.stream)
    return await respond(request, to_chat(request, body), form, body.stream)


async def generate(request: Request) -> Response:
    """Answer a prompt. With an empty one nothing runs."""
    body = await read_body(request, OllamaGenerateRequest)
    form = AnswerForm(request, body, require_model(request, body.model), "generate")
    if not body.prompt.strip():
        return respond_at_once(form, body.unloads, body.stream)
    asked = base_chat(request, body)
    asked.separate_reasoning = not body.raw
    asked.input_ids = await prompt_ids(request, body, asked)
    return await respond(request, asked, form, body.stream)


def make_router(env: Env) -> APIRouter:
    """All routes, at the paths that the environment gives them."""
    router = APIRouter(tags=["ollama"], responses=ollama_responses())
    add = router.add_api_route
    stream: Responses = {200: {"description": "Success", "content": {"application/json": {}, LINES: {}}}}
    add(env.ollama_chat_route, chat, methods=["POST"], responses=stream, openapi_extra=body_doc(OllamaChatRequest))
    add(
        env.ollama_generate_route,
        generate,
        methods=["POST"],
        responses=stream,
        openapi_extra=body_doc(OllamaGenerateRequest),
    )
    add(env.ollama_tags_route, models.tags, methods=["GET"])
    add(env.ollama_show_route, models.show, methods=["POST"], openapi_extra=body_doc(OllamaShowRequest))
    add("/api/ps", models.ps, methods=["GET"])
    add("/api/version", models.version, methods=["GET"])
    for path in ("/api/embed", "/api/embeddings"):
        add(path, models.embed, methods=["POST"], openapi_extra=body_doc(OllamaEmbedRequest))
    if env.ollama_root_route not in (None, "", "/"):  # the root itself is the native family's
        add(env.ollama_root_route, greeting, methods=["GET", "HEAD"], include_in_schema=False)
    return router


router = make_router(Env())
"""The routes at their usual paths."""
