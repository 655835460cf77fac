"""POST|PUT /generate."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from sglang.api.answers import native_responses
from sglang.api.body import body_doc, read_body
from sglang.api.errors import json_response
from sglang.api.native.protocol import GenerateRequest
from sglang.api.streaming import DONE, EventStream, event
from sglang.api.work import args, manager, run
from sglang.ipc.errors import InvalidRequest, RequestAborted
from sglang.ipc.inputs import GenerateReqInput

if TYPE_CHECKING:
    from sglang.processes.tokenizer.manager import TokenizerManager
    from sglang.processes.tokenizer.streams import RequestGroup

router = APIRouter(tags=["native"])
logger = logging.getLogger(__name__)


@router.post("/generate", responses=native_responses(stream=True), openapi_extra=body_doc(GenerateRequest))
@router.put("/generate", responses=native_responses(stream=True), openapi_extra=body_doc(GenerateRequest))
async def generate(request: Request) -> Response:
    """Generate from text or token ids: one prompt, a batch, or several samples of each."""
    obj = (await read_body(request, GenerateRequest)).to_input()
    if obj.stream:
        return stream_generate(request, obj)
    return json_response(await generate_results(request, obj))


def stream_generate(request: Request, obj: GenerateReqInput) -> Response:
    """The answer as events."""
    incremental = args(request).incremental_streaming_output
    return EventStream(_events(manager(request), obj, incremental))


async def generate_results(request: Request, obj: GenerateReqInput) -> list[dict[str, Any]] | dict[str, Any]:
    """The finished results: a list for a batch or several samples."""
    group = await run(request, obj)
    results = [stream.result() for stream in group.streams]
    return results if group.is_batch else results[0]


async def _events(tm: TokenizerManager, obj: GenerateReqInput, incremental: bool) -> AsyncGenerator[bytes, None]:
    """One event a chunk; a refused request is an event too, since the headers have gone out."""
    group: RequestGroup | None = None
    finished = False
    try:
        group = await tm.submit(obj)
        async for stream, _chunk in group.events():
            data = stream.result(incremental=incremental)
            if group.is_batch:
                data["index"] = stream.index
            yield event(data)
        finished = True
    except (InvalidRequest, RequestAborted) as error:
        yield _error_event(error)
    except Exception:
        logger.exception("a /generate stream failed")
        yield _error_event(RequestAborted("Internal server error", 500))
    finally:
        if group is not None and not finished and not obj.background:
            group.abort()
    yield DONE


def _error_event(error: InvalidRequest | RequestAborted) -> bytes:
    code = error.status_code if isinstance(error, RequestAborted) else 400
    kind = "invalid_request_error" if code < 500 else "server_error"
    return event({"error": {"message": str(error), "type": kind, "code": code, "retryable": code == 503}})
