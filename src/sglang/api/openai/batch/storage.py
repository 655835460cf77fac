"""The folder behind ``--file-storage-path``: one server at a time, files and batches inside."""

from __future__ import annotations

import fcntl
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import httpx
import orjson
from fastapi import FastAPI, Request

from sglang.api.auth import is_foreign_page
from sglang.api.lifecycle import Lifecycle
from sglang.api.openai.batch.file_store import FileStore
from sglang.api.openai.batch.worker import BatchWorker
from sglang.api.openai.wrapped import wrapped_error
from sglang.api.work import args

if TYPE_CHECKING:
    from sglang.config.server_args import ServerArgs
    from sglang.processes.tokenizer.manager import TokenizerManager

OFF_HELP = "files and batches are off; start the server with --file-storage-path FOLDER"
MAX_PARALLEL = 64


class Storage:
    """Files and batches of one server."""

    def __init__(self, folder: Path, app: FastAPI, tm: TokenizerManager, server_args: ServerArgs) -> None:
        """Raises ValueError where the folder can't be used, or another server uses it."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = (folder / "lock").open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.files = FileStore(folder / "files")
            caller = _Caller(app, server_args.api_key)
            self.worker = BatchWorker(folder / "batches", self.files, caller, _Server(tm, app.state.lifecycle))
        except BlockingIOError:
            self._lock.close()
            raise ValueError(f"--file-storage-path {folder}: another server uses this folder") from None
        except OSError as error:
            raise ValueError(f"--file-storage-path {folder}: can't be used: {error}") from None

    def close(self) -> None:
        """Let another server have the folder."""
        self._lock.close()


class _Server:
    def __init__(self, tm: TokenizerManager, life: Lifecycle) -> None:
        self._tm = tm
        self._life = life

    def going(self) -> bool:
        return not self._life.stopping and self._tm.status != "failed"

    def parallel(self) -> int:
        """Half of what the model runs at once: a batch has time, and others have not."""
        running = int(self._tm.scheduler_info.get("max_running_requests", 2))
        return max(1, min(running // 2, MAX_PARALLEL))


class _Caller:
    """Sends a request through the whole application, as a client would, without a socket."""

    def __init__(self, app: FastAPI, api_key: str | None) -> None:
        self._transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        self._headers = {"host": "batch", "content-type": "application/json"}
        if api_key:
            self._headers["authorization"] = f"Bearer {api_key}"

    async def __call__(self, endpoint: str, body: dict[str, Any]) -> tuple[int, Any, str]:
        content = orjson.dumps(body)
        request = httpx.Request("POST", f"http://batch{endpoint}", headers=self._headers, content=content)
        # The transport alone: a client would log a line for each request.
        response = await self._transport.handle_async_request(request)
        answer = orjson.loads(await response.aread())
        name = answer.get("id") if isinstance(answer, dict) else None
        return response.status_code, answer, name if isinstance(name, str) else uuid.uuid4().hex


def storage_of(request: Request) -> Storage:
    """Raises ApiError where files are off, or where a page of another origin asks and no key protects the files."""
    storage = cast("Storage | None", request.app.state.storage)
    if storage is None:
        raise wrapped_error(OFF_HELP, 404)
    if args(request).api_key is None and is_foreign_page(request.headers):
        raise wrapped_error("Forbidden: called by a page of another origin while no API key is set", 403)
    storage.worker.start()
    return storage
