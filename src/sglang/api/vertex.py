"""Vertex AI predictions: a batch of instances with shared parameters, answered by the native route."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from sglang.api.answers import native_responses
from sglang.api.body import RequestModel, body_doc, read_body, validate
from sglang.api.errors import json_response, native_error
from sglang.api.native.generate import generate_results, stream_generate
from sglang.api.native.protocol import GenerateRequest
from sglang.config.env import Env

PROMPT_KEYS = ("text", "input_ids", "input_embeds")


class VertexRequest(RequestModel):
    """Each instance holds a prompt: ``text``, ``input_ids`` or ``input_embeds``, the same in all of them."""

    instances: list[dict[str, Any]]
    parameters: dict[str, Any] | None = None


async def vertex_generate(request: Request) -> Response:
    """Generate for each instance; ``parameters`` holds any other fields of /generate."""
    body = await read_body(request, VertexRequest)
    if not body.instances:
        return json_response([])
    obj = validate(GenerateRequest, to_generate(body)).to_input()
    if obj.stream:
        return stream_generate(request, obj)
    return json_response({"predictions": await generate_results(request, obj)})


def to_generate(body: VertexRequest) -> dict[str, Any]:
    """The body of /generate. The first instance decides which key holds the prompts. Raises ApiError (400)."""
    key = next((key for key in PROMPT_KEYS if key in body.instances[0]), None)
    if key is None:
        raise native_error(f"instances[0]: needs one of {', '.join(PROMPT_KEYS)}")
    if missing := [str(index) for index, instance in enumerate(body.instances) if key not in instance]:
        raise native_error(f"instances: the first one has {key!r}, so all need it; missing in {', '.join(missing[:5])}")
    data = {**(body.parameters or {}), key: [instance[key] for instance in body.instances]}
    images = [instance["image_data"] for instance in body.instances if instance.get("image_data") is not None]
    if images:
        data["image_data"] = images
    return data


def make_router(env: Env) -> APIRouter:
    """The route at the path that the environment gives it."""
    router = APIRouter(tags=["vertex"])
    router.add_api_route(
        env.aip_predict_route,
        vertex_generate,
        methods=["POST"],
        responses=native_responses(stream=True),
        openapi_extra=body_doc(VertexRequest),
    )
    return router


router = make_router(Env())
"""The route at its usual path."""
