"""Routes that change the running server: flush, abort, pause, continue, logging."""

from __future__ import annotations

import logging
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from sglang.api.answers import EMPTY_200, TEXT_200, control_responses
from sglang.api.auth import admin_optional
from sglang.api.body import body_doc, read_optional_body
from sglang.api.errors import json_response, native_error
from sglang.api.native.protocol import AbortRequest, ConfigureLoggingRequest, ContinueRequest, PauseRequest
from sglang.api.work import manager

router = APIRouter(tags=["control"], responses=control_responses())

FLUSHED = "Cache flushed.\nA flush is done only while no request is running or waiting; the log has the details.\n"


@router.post("/flush_cache", response_class=Response, responses=TEXT_200)
@router.get("/flush_cache", response_class=Response, responses=TEXT_200)
@admin_optional
async def flush_cache(
    request: Request,
    timeout: Annotated[float, Query(ge=0, allow_inf_nan=False, description="seconds to wait for an idle server")] = 0.0,
) -> Response:
    """Forget all cached prefixes. Done only when nothing runs or waits."""
    answer = await manager(request).flush_cache(timeout)
    if answer.success:
        return Response(FLUSHED, media_type="text/plain")
    detail = f" {answer.message}" if answer.message else ""
    return Response(f"Flush cache failed.{detail}\n", 400, media_type="text/plain")


@router.post(
    "/abort_request",
    response_class=Response,
    responses=EMPTY_200,
    openapi_extra=body_doc(AbortRequest, required=False),
)
@admin_optional
async def abort_request(request: Request) -> Response:
    """End one request by its exact id, or all. Unknown ids are no error."""
    body = await read_optional_body(request, AbortRequest)
    if body.rid or body.abort_all:
        await manager(request).abort(body.rid, body.abort_all)
    return Response()


@router.post("/pause_generation", openapi_extra=body_doc(PauseRequest, required=False))
@admin_optional
async def pause_generation(request: Request) -> Response:
    """Stop generating: abort everything, put it back into the queue, or freeze it in place."""
    body = await read_optional_body(request, PauseRequest)
    await manager(request).pause(body.mode)
    return json_response({"message": "Generation paused successfully.", "status": "ok"})


@router.post("/continue_generation", openapi_extra=body_doc(ContinueRequest, required=False))
@admin_optional
async def continue_generation(request: Request) -> Response:
    """Undo /pause_generation."""
    await read_optional_body(request, ContinueRequest)
    await manager(request).continue_generation()
    return json_response({"message": "Generation continued successfully.", "status": "ok"})


@router.post(
    "/configure_logging",
    response_class=Response,
    responses=EMPTY_200,
    openapi_extra=body_doc(ConfigureLoggingRequest, required=False),
)
@admin_optional
async def configure_logging(request: Request) -> Response:
    """Set the log level. Logging or dumping of requests is refused until it exists."""
    body = await read_optional_body(request, ConfigureLoggingRequest)
    for name in ("log_requests", "dump_requests_folder", "crash_dump_folder"):
        if getattr(body, name):
            raise native_error(f"{name} is not supported yet; leave it out")
    if body.log_level is not None:
        logging.getLogger("sglang").setLevel(body.log_level.upper())
    return Response()
