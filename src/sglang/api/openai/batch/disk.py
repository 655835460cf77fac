"""Small things about files that must survive a crash."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import TypeVar

import msgspec

Record = TypeVar("Record", bound=msgspec.Struct)

_NAME = re.compile(r"(file|batch)-[0-9a-f]{32}")


def new_name(kind: str) -> str:
    """An id that nobody guesses, safe as a file name."""
    return f"{kind}-{secrets.token_hex(16)}"


def is_name(kind: str, name: str) -> bool:
    """Whether an id has the form of :func:`new_name`: only such ids may become paths."""
    return _NAME.fullmatch(name) is not None and name.startswith(kind + "-")


def save(path: Path, record: msgspec.Struct) -> None:
    """Write a record so that a reader sees the old one or the new one, whatever happens meanwhile."""
    write_whole(path, msgspec.json.encode(record))


def write_whole(path: Path, data: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def load_all(folder: Path, kind: type[Record]) -> list[Record]:
    """All records of a folder; those that can't be read are left out."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(msgspec.json.decode(path.read_bytes(), type=kind))
        except (OSError, msgspec.DecodeError):
            continue
    return found
