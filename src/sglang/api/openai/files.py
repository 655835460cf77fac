"""/v1/files: input and output of batches, in a local folder."""

from __future__ import annotations

import asyncio
from pathlib import PurePosixPath
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from sglang.api.answers import files_responses
from sglang.api.errors import json_response
from sglang.api.openai.batch.file_store import MAX_FILES, FileRecord
from sglang.api.openai.batch.pages import limit_of, page
from sglang.api.openai.batch.storage import storage_of
from sglang.api.openai.protocol.batch import LONGEST_LIFE, SHORTEST_LIFE
from sglang.api.openai.wrapped import wrapped_error, wrapped_errors

router = APIRouter(tags=["openai"], responses=files_responses())

PURPOSES = ("batch", "assistants", "fine-tune", "vision", "user_data", "evals")
BATCH_LIFE = 30 * 24 * 3600
"""Seconds that an uploaded input of a batch is kept unless it says otherwise."""

_UPLOAD = {
    "type": "object",
    "required": ["file", "purpose"],
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "purpose": {"type": "string", "enum": list(PURPOSES)},
        "expires_after[anchor]": {"type": "string", "enum": ["created_at"]},
        "expires_after[seconds]": {"type": "integer", "minimum": SHORTEST_LIFE, "maximum": LONGEST_LIFE},
    },
}
_UPLOAD_DOC = {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _UPLOAD}}}}


@router.post("/v1/files", openapi_extra=_UPLOAD_DOC)
async def upload_file(request: Request) -> Response:
    """Keep a file."""
    storage = storage_of(request)
    form = await _form(request)
    try:
        file, purpose = form.get("file"), form.get("purpose")
        if not isinstance(file, UploadFile):
            raise wrapped_error("file: a file is required, as a part of a multipart/form-data body", 400, "file")
        if purpose not in PURPOSES:
            raise wrapped_error(f"purpose: must be one of {', '.join(PURPOSES)}", 400, "purpose")
        name = PurePosixPath(file.filename or "file").name[:255] or "file"
        life = _life(form, str(purpose))
        with wrapped_errors():
            record = await asyncio.to_thread(storage.files.add, file.file, file.size or 0, name, str(purpose), life)
    finally:
        await form.close()
    return json_response(record.public())


@router.get("/v1/files")
async def list_files(request: Request) -> Response:
    """Files by ``purpose``, newest first unless ``order`` is asc; ``limit`` and ``after`` page through them."""
    records = storage_of(request).files.all()
    order = request.query_params.get("order", "desc")
    if order not in ("asc", "desc"):
        raise wrapped_error(f"order: must be asc or desc, got {order[:40]!r}", 400, "order")
    purpose = request.query_params.get("purpose")
    shown = [record.public() for record in records if purpose in (None, "", record.purpose)]
    if order == "desc":
        shown.reverse()
    return json_response(page(shown, limit_of(request, MAX_FILES, MAX_FILES), request.query_params.get("after")))


@router.get("/v1/files/{file_id}")
async def get_file(request: Request, file_id: str) -> Response:
    return json_response(_file(request, file_id).public())


@router.get("/v1/files/{file_id}/content")
async def get_file_content(request: Request, file_id: str) -> Response:
    """The bytes of a file, as a download: what others uploaded is never shown as a page of this server."""
    record = _file(request, file_id)
    headers = {"x-content-type-options": "nosniff"}
    path = storage_of(request).files.path(record)
    return FileResponse(path, media_type="application/octet-stream", filename=record.filename, headers=headers)


@router.delete("/v1/files/{file_id}")
async def delete_file(request: Request, file_id: str) -> Response:
    """Remove a file that no unfinished batch reads."""
    record, storage = _file(request, file_id), storage_of(request)
    if (batch := storage.worker.uses(record.id)) is not None:
        raise wrapped_error(f"file_id: {batch.id} reads this file and is {batch.status}", 400, "file_id")
    storage.files.remove(record)
    return json_response({"id": record.id, "object": "file", "deleted": True})


def _file(request: Request, file_id: str) -> FileRecord:
    record = storage_of(request).files.get(file_id)
    if record is None:
        raise wrapped_error(f"No such File object: {file_id[:100]}", 404, "id")
    return record


async def _form(request: Request) -> FormData:
    try:
        return await request.form(max_files=1, max_fields=16, max_part_size=4_096)
    except HTTPException as error:  # a body that is no form
        raise wrapped_error(f"body: {error.detail}", 400) from None


def _life(form: FormData, purpose: str) -> int | None:
    """Seconds until the file expires; None: never."""
    given: Any = form.get("expires_after[seconds]")
    if given is None:
        return BATCH_LIFE if purpose == "batch" else None
    text = str(given)[:20]
    if not text.isdecimal() or not SHORTEST_LIFE <= int(text) <= LONGEST_LIFE:
        raise wrapped_error(
            f"expires_after.seconds: must be from {SHORTEST_LIFE} to {LONGEST_LIFE}, got {text!r}", 400, "expires_after"
        )
    return int(text)
