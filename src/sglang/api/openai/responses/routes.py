"""POST /v1/responses, and what can be done with a stored one."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from sglang.api.answers import wrapped_responses
from sglang.api.body import body_doc, read_body
from sglang.api.errors import json_response
from sglang.api.openai.protocol.responses import ResponsesRequest
from sglang.api.openai.responses.create import STORE_HELP, answer, owner_of, store_of
from sglang.api.openai.responses.history import page
from sglang.api.openai.responses.store import ResponseStore, StoredResponse
from sglang.api.openai.wrapped import wrapped_error, wrapped_errors
from sglang.api.streaming import EventStream

router = APIRouter(tags=["openai"])


@router.post("/v1/responses", responses=wrapped_responses(stream=True), openapi_extra=body_doc(ResponsesRequest))
async def create_response(request: Request) -> Response:
    """Answer an input: whole, as a stream, or in the background."""
    with wrapped_errors():
        return await answer(request, await read_body(request, ResponsesRequest, json_only=True))


@router.get("/v1/responses/{response_id}", responses=wrapped_responses(stream=True))
async def get_response(request: Request, response_id: str) -> Response:
    """A stored response as it is now; ``?stream=true`` for the events of one that runs in the background."""
    entry = _entry(request, response_id)
    if request.query_params.get("stream", "false").lower() not in ("true", "1"):
        return json_response(entry.response)
    if entry.events is None:
        text = "stream: only a response made with background and stream has events to come back to"
        raise wrapped_error(text, 400, "stream")
    return EventStream(entry.follow(_starting_after(request)))


@router.get("/v1/responses/{response_id}/input_items", responses=wrapped_responses())
async def list_input_items(request: Request, response_id: str) -> Response:
    """The items that led to a response, those of earlier turns among them: ``limit``, ``order`` and ``after``."""
    entry = _entry(request, response_id)
    return json_response(page(entry.history[: entry.inputs], request.query_params))


@router.post("/v1/responses/{response_id}/cancel", responses=wrapped_responses())
async def cancel_response(request: Request, response_id: str) -> Response:
    """Stop a response that is queued or in progress; a finished one is answered as it is."""
    entry = _entry(request, response_id)
    if entry.live is not None:
        entry.live.cancel()
    return json_response(entry.response)


@router.delete("/v1/responses/{response_id}", responses=wrapped_responses())
async def delete_response(request: Request, response_id: str) -> Response:
    """Forget a response; one that runs is stopped."""
    entry = _entry(request, response_id)
    if entry.live is not None:
        entry.live.cancel()
    _store(request).remove(entry)
    return json_response({"id": entry.id, "object": "response", "deleted": True})


def _store(request: Request) -> ResponseStore:
    store = store_of(request)
    if store is None:
        raise wrapped_error(f"response_id: {STORE_HELP}", 400, "response_id")
    return store


def _entry(request: Request, response_id: str) -> StoredResponse:
    return _store(request).get(response_id, owner_of(request))


def _starting_after(request: Request) -> int:
    given = request.query_params.get("starting_after", "-1")
    try:
        return max(int(given), -1)
    except ValueError:
        raise wrapped_error(f"starting_after: must be an integer, got {given[:40]!r}", 400, "starting_after") from None
