"""/v1/batches: many requests in one file, answered when there is time."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from sglang.api.answers import files_responses
from sglang.api.body import body_doc, read_body
from sglang.api.errors import json_response
from sglang.api.openai.batch.pages import limit_of, page
from sglang.api.openai.batch.record import BatchRecord, new_batch
from sglang.api.openai.batch.storage import storage_of
from sglang.api.openai.protocol.batch import BatchRequestBody
from sglang.api.openai.wrapped import wrapped_error, wrapped_errors
from sglang.api.work import served_model

router = APIRouter(tags=["openai"], responses=files_responses())

MAX_UNFINISHED = 100
CANCELLABLE = ("validating", "in_progress")


@router.post("/v1/batches", openapi_extra=body_doc(BatchRequestBody))
async def create_batch(request: Request) -> Response:
    """Queue the requests of an uploaded file."""
    storage = storage_of(request)
    with wrapped_errors():
        body = await read_body(request, BatchRequestBody, json_only=True)
    file = storage.files.get(body.input_file_id)
    if file is None:
        raise wrapped_error(f"input_file_id: no such file: {body.input_file_id[:100]}", 400, "input_file_id")
    if file.purpose != "batch":
        text = f"input_file_id: the file was uploaded for {file.purpose!r}; upload it with purpose 'batch'"
        raise wrapped_error(text, 400, "input_file_id")
    if sum(record.unfinished for record in storage.worker.all()) >= MAX_UNFINISHED:
        raise wrapped_error(f"{MAX_UNFINISHED} batches are unfinished; cancel one or try again later", 503)
    life = body.output_expires_after.seconds if body.output_expires_after is not None else None
    record = new_batch(body.endpoint, file.id, body.completion_window, body.metadata, life)
    storage.worker.add(record)
    return json_response(record.public(served_model(request)))


@router.get("/v1/batches")
async def list_batches(request: Request) -> Response:
    """Batches, newest first; ``limit`` and ``after`` page through them."""
    model = served_model(request)
    records = [record.public(model) for record in reversed(storage_of(request).worker.all())]
    return json_response(page(records, limit_of(request, 20, 100), request.query_params.get("after")))


@router.get("/v1/batches/{batch_id}")
async def get_batch(request: Request, batch_id: str) -> Response:
    return json_response(_batch(request, batch_id).public(served_model(request)))


@router.post("/v1/batches/{batch_id}/cancel")
async def cancel_batch(request: Request, batch_id: str) -> Response:
    """Stop a batch; what is answered by then becomes its output."""
    record = _batch(request, batch_id)
    if record.status != "cancelling":
        if record.status not in CANCELLABLE:
            raise wrapped_error(f"batch_id: a batch that is {record.status} can't be cancelled", 400, "batch_id")
        storage_of(request).worker.cancel(record)
    return json_response(record.public(served_model(request)))


def _batch(request: Request, batch_id: str) -> BatchRecord:
    record = storage_of(request).worker.get(batch_id)
    if record is None:
        raise wrapped_error(f"No batch found with id {batch_id[:100]!r}", 404, "batch_id")
    return record
