"""The OpenAPI document: bodies are read by hand (strictly), so their schemas and all answers are declared here."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from sglang.api import vertex
from sglang.api.answers import ERROR_SCHEMAS
from sglang.api.anthropic import protocol as anthropic
from sglang.api.anthropic.answers import ERROR_SCHEMA as ANTHROPIC_ERROR
from sglang.api.native import parse
from sglang.api.native import protocol as native
from sglang.api.ollama import protocol as ollama
from sglang.api.openai.protocol import batch, chat, completion, responses, tokenize

BODIES = (
    native.GenerateRequest,
    native.AbortRequest,
    native.PauseRequest,
    native.ContinueRequest,
    native.ConfigureLoggingRequest,
    completion.CompletionRequest,
    chat.ChatCompletionRequest,
    responses.ResponsesRequest,
    batch.BatchRequestBody,
    tokenize.TokenizeRequest,
    tokenize.DetokenizeRequest,
    parse.ParseFunctionCallRequest,
    parse.SeparateReasoningRequest,
    vertex.VertexRequest,
    ollama.OllamaChatRequest,
    ollama.OllamaGenerateRequest,
    ollama.OllamaShowRequest,
    ollama.OllamaEmbedRequest,
    anthropic.MessagesRequest,
    anthropic.CountTokensRequest,
)

_ERRORS = {**ERROR_SCHEMAS, "AnthropicError": ANTHROPIC_ERROR}


def build_document(app: FastAPI) -> dict[str, Any]:
    """The document with the schemas of all bodies; built once."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, routes=app.routes)
        _, definitions = models_json_schema(
            [(model, "validation") for model in BODIES], ref_template="#/components/schemas/{model}"
        )
        components = document.setdefault("components", {})
        components.setdefault("schemas", {}).update(definitions["$defs"] | _ERRORS)
        for path in document["paths"].values():
            for operation in path.values():
                operation.get("responses", {}).pop("422", None)  # refused input is 400 here
        app.openapi_schema = document
    return app.openapi_schema
