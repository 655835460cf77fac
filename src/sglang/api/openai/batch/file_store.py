"""Uploaded and written files: a data file and a record each, in one folder."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from sglang.api.openai.batch.disk import is_name, load_all, new_name, save
from sglang.ipc.errors import InvalidRequest

MAX_FILES = 10_000
MAX_BYTES = 16 * 1024**3
"""Of all files together."""


class FileRecord(msgspec.Struct):
    """What is known of a file besides its bytes; times in seconds since 1970."""

    id: str
    bytes: int
    created_at: int
    filename: str
    purpose: str
    expires_at: int | None = None

    def public(self) -> dict[str, Any]:
        return {"object": "file", "status": "processed", "status_details": None, **msgspec.structs.asdict(self)}


class FileStore:
    """All files, oldest first. Expired ones go when somebody looks."""

    def __init__(self, folder: Path, max_files: int = MAX_FILES, max_bytes: int = MAX_BYTES) -> None:
        """Raises OSError where the folder can't be used."""
        self._folder = folder
        self._max_files = max_files
        self._max_bytes = max_bytes
        folder.mkdir(parents=True, exist_ok=True)
        records = sorted(load_all(folder, FileRecord), key=lambda record: record.created_at)
        self._records = {r.id: r for r in records if is_name("file", r.id) and self._data(r.id).exists()}

    def add(self, source: BinaryIO, size: int, filename: str, purpose: str, seconds: int | None = None) -> FileRecord:
        """Copy a file in. Raises InvalidRequest where there is no room."""
        self._check_room(size)
        record = self._record(new_name("file"), size, filename, purpose, seconds)
        partial = self._data(record.id).with_suffix(".partial")
        with partial.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
            target.flush()
            os.fsync(target.fileno())
        partial.replace(self._data(record.id))
        return self._keep(record)

    def take(self, path: Path, name: str, filename: str, seconds: int | None = None) -> FileRecord:
        """Make an output of a batch a file of its own under ``name``; doing it again changes nothing."""
        if (known := self._records.get(name)) is not None:
            return known
        if not self._data(name).exists():
            path.replace(self._data(name))
        size = self._data(name).stat().st_size
        return self._keep(self._record(name, size, filename, "batch_output", seconds))

    def get(self, name: str) -> FileRecord | None:
        self._expire()
        return self._records.get(name)

    def path(self, record: FileRecord) -> Path:
        return self._data(record.id)

    def all(self) -> list[FileRecord]:
        self._expire()
        return list(self._records.values())

    def remove(self, record: FileRecord) -> None:
        self._records.pop(record.id, None)
        self._note(record.id).unlink(missing_ok=True)
        self._data(record.id).unlink(missing_ok=True)

    def _record(self, name: str, size: int, filename: str, purpose: str, seconds: int | None) -> FileRecord:
        now = int(time.time())
        return FileRecord(name, size, now, filename, purpose, None if seconds is None else now + seconds)

    def _keep(self, record: FileRecord) -> FileRecord:
        save(self._note(record.id), record)
        self._records[record.id] = record
        return record

    def _check_room(self, size: int) -> None:
        self._expire()
        help_text = "delete some with DELETE /v1/files/{id}"
        if len(self._records) >= self._max_files:
            raise InvalidRequest(
                f"file: {len(self._records)} files are stored, which is the limit; {help_text}", "file"
            )
        used = sum(record.bytes for record in list(self._records.values()))
        if used + size > self._max_bytes:
            raise InvalidRequest(
                f"file: {used} of {self._max_bytes} bytes are used; {size} more don't fit; {help_text}", "file"
            )

    def _expire(self) -> None:
        now = time.time()
        for record in list(self._records.values()):  # uploads arrive in other threads
            if record.expires_at is not None and record.expires_at <= now:
                self.remove(record)

    def _note(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _data(self, name: str) -> Path:
        return self._folder / f"{name}.data"
