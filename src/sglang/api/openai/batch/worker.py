"""Runs batches one after another, beside the requests of others, and picks up after a restart."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from sglang.api.openai.batch.disk import is_name, load_all, save
from sglang.api.openai.batch.file_store import FileStore
from sglang.api.openai.batch.lines import BatchRequest, check_lines, read_requests
from sglang.api.openai.batch.record import BatchRecord
from sglang.api.openai.batch.results import BAD, GOOD, Results

logger = logging.getLogger(__name__)

MAX_RECORDS = 10_000
"""Batches remembered; the oldest finished ones are forgotten first. Their output files stay."""
FIRST_WAIT = 0.1
LONGEST_WAIT = 5.0
"""Seconds between two tries of a request that found the server's queue full."""

Call = Callable[[str, dict[str, Any]], Awaitable[tuple[int, Any, str]]]
"""(endpoint, body) → status, answer, id of the request."""


class Server(Protocol):
    """What the worker must know of the server it works in."""

    def going(self) -> bool:
        """Whether answers can be trusted: not while it stops or after its model process has died."""
        ...

    def parallel(self) -> int:
        """Requests of batches at the same time."""
        ...


class BatchWorker:
    """All batches by id, oldest first, and the task that runs the unfinished ones."""

    def __init__(self, folder: Path, files: FileStore, call: Call, server: Server) -> None:
        """Raises OSError where the folder can't be used."""
        self._folder = folder
        self._files = files
        self._call = call
        self._server = server
        folder.mkdir(parents=True, exist_ok=True)
        records = sorted(load_all(folder, BatchRecord), key=lambda record: record.created_at)
        self._records = {record.id: record for record in records if is_name("batch", record.id)}
        self._task: asyncio.Task[None] | None = None
        self._running: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------------ for the routes

    def start(self) -> None:
        """Go on with what is unfinished. Call it in the event loop; again and again does no harm."""
        if (self._task is None or self._task.done()) and self._next() is not None:
            self._task = asyncio.ensure_future(self._work())

    def add(self, record: BatchRecord) -> None:
        self._save(record)
        self._records[record.id] = record
        self._forget()
        self.start()

    def get(self, name: str) -> BatchRecord | None:
        return self._records.get(name)

    def all(self) -> list[BatchRecord]:
        return list(self._records.values())

    def cancel(self, record: BatchRecord) -> None:
        """Stop a batch; what is answered so far is kept. The worker ends it soon."""
        record.become("cancelling")
        self._save(record)
        if record is self._next():
            for task in self._running:
                task.cancel()
        self.start()

    def uses(self, file_id: str) -> BatchRecord | None:
        """The unfinished batch that reads a file."""
        return next((r for r in self._records.values() if r.unfinished and r.input_file_id == file_id), None)

    # ------------------------------------------------------------------ work

    def _next(self) -> BatchRecord | None:
        """The batch that runs or is the next to run."""
        return next((record for record in self._records.values() if record.unfinished), None)

    async def _work(self) -> None:
        while (record := self._next()) is not None and self._server.going():
            try:
                await self._run(record)
            except Exception as error:  # a full disk, a lost file: this batch ends, others go on
                logger.exception("batch %s failed", record.id)
                self._fail(record, [{"code": "server_error", "message": str(error)[:500], "param": None, "line": None}])
            if record.unfinished:
                return  # the server stops

    async def _run(self, record: BatchRecord) -> None:
        file = self._files.get(record.input_file_id)
        if file is None and record.end is None:
            raise FileNotFoundError(f"the input file {record.input_file_id} is gone")
        if file is not None and record.end is None:
            path = self._files.path(file)
            if record.status == "validating" and not await self._validate(record, path):
                return
            await self._collect(record, path)
        if record.end is not None:
            final = await asyncio.to_thread(self._finish, msgspec.structs.replace(record))
            for name in record.__struct_fields__:  # only now, so that nobody sees an end that a crash could undo
                setattr(record, name, getattr(final, name))

    async def _validate(self, record: BatchRecord, path: Path) -> bool:
        record.total, problems = await asyncio.to_thread(check_lines, path, record.endpoint)
        if problems:
            self._fail(record, problems)
            return False
        if record.status == "validating":  # it may have been cancelled meanwhile
            record.become("in_progress")
        self._save(record)
        return True

    async def _collect(self, record: BatchRecord, path: Path) -> None:
        """Get all answers; then settle how the batch ends, unless the server stops."""
        results = await asyncio.to_thread(Results, self._folder / record.id)
        try:
            await self._answer_all(record, path, results)
            if not self._server.going():
                return
            end = "cancelled" if record.status == "cancelling" else "completed"
            if end == "completed" and len(results.done) < record.total:
                end = "expired"
                await asyncio.to_thread(_expire_rest, record, path, results)
            self._count(record, results)
        finally:
            results.close()
        record.usage = results.usage()
        record.end = end
        if record.status == "in_progress":
            record.become("finalizing")
        self._save(record)

    async def _answer_all(self, record: BatchRecord, path: Path, results: Results) -> None:
        self._count(record, results)
        try:
            for request in read_requests(path, record.endpoint):
                if request.custom_id in results.done:
                    continue
                while len(self._running) >= self._server.parallel():
                    await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
                    self._reap(record, results)
                if not self._may_go_on(record):
                    break
                self._running.add(asyncio.ensure_future(self._answer(record, request, results)))
            while self._running:
                await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
                self._reap(record, results)
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            self._running.clear()

    def _may_go_on(self, record: BatchRecord) -> bool:
        return record.status == "in_progress" and self._server.going() and time.time() < record.expires_at

    def _reap(self, record: BatchRecord, results: Results) -> None:
        finished = {task for task in self._running if task.done()}
        self._running -= finished
        for task in finished:
            if not task.cancelled():
                task.result()  # writing may have failed
        self._count(record, results)

    async def _answer(self, record: BatchRecord, request: BatchRequest, results: Results) -> None:
        wait = FIRST_WAIT
        while True:
            status, body, name = await self._call(record.endpoint, request.body)
            if not self._server.going():
                return  # whatever came may be half of an answer; the next start asks again
            if status != 503:
                results.add(request.custom_id, status, body, name)
                return
            if time.time() >= record.expires_at:
                return
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    def _count(self, record: BatchRecord, results: Results) -> None:
        record.completed, record.failed = results.good, results.bad

    # ------------------------------------------------------------------ the end

    def _finish(self, record: BatchRecord) -> BatchRecord:
        """Hand the results over. Every step can be repeated, because a crash may lie between any two."""
        folder = self._folder / record.id
        record.output_file_id = self._hand_over(record, folder / GOOD, record.output_name, "output")
        record.error_file_id = self._hand_over(record, folder / BAD, record.error_name, "error")
        record.become(record.end or "completed")
        self._save(record)
        shutil.rmtree(folder, ignore_errors=True)
        return record

    def _hand_over(self, record: BatchRecord, path: Path, name: str, kind: str) -> str | None:
        taken = self._files.get(name)
        if taken is None and (not path.exists() or path.stat().st_size == 0):
            return None
        return self._files.take(path, name, f"{record.id}_{kind}.jsonl", record.output_seconds).id

    def _fail(self, record: BatchRecord, problems: list[dict[str, Any]]) -> None:
        record.errors = problems
        record.become("failed")
        shutil.rmtree(self._folder / record.id, ignore_errors=True)
        try:
            self._save(record)
        except OSError:
            logger.exception("batch %s can't be saved", record.id)

    def _save(self, record: BatchRecord) -> None:
        save(self._folder / f"{record.id}.json", record)

    def _forget(self) -> None:
        finished = [record for record in self._records.values() if not record.unfinished]
        for record in finished[: max(0, len(self._records) - MAX_RECORDS)]:
            del self._records[record.id]
            (self._folder / f"{record.id}.json").unlink(missing_ok=True)


def _expire_rest(record: BatchRecord, path: Path, results: Results) -> None:
    """Requests that the window left no time for get an error each."""
    for request in read_requests(path, record.endpoint):
        if request.custom_id not in results.done:
            results.add_error(request.custom_id, "batch_expired", "the completion window closed before its turn")
