"""What was computed already, kept in a folder, so that an interrupted run goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.machine import CACHE

FOLDER = CACHE / "accuracy"
DIGITS = 16
"""Hexadecimal digits that tell things apart."""

Arrays = dict[str, npt.NDArray[Any]]


class Store:
    """Sets of arrays under names; a set is there whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, *names: str) -> Arrays | None:
        file = self._file(names)
        if not file.exists():
            return None
        with np.load(file) as kept:
            return {name: kept[name] for name in kept.files}

    def put(self, arrays: Mapping[str, npt.NDArray[Any]], *names: str) -> None:
        file = self._file(names)
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh = file.with_name(f"{file.stem}.{os.getpid()}.part")
        with fresh.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **dict(arrays))
        fresh.replace(file)

    def _file(self, names: tuple[str, ...]) -> Path:
        return self.folder.joinpath(*names).with_suffix(".npz")


def digest_of_files(files: Iterable[Path]) -> str:
    """Of what is in them, in the order given."""
    whole = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while piece := stream.read(1 << 20):
                whole.update(piece)
    return whole.hexdigest()[:DIGITS]


def digest_of_ids(ids: npt.NDArray[np.int64]) -> str:
    return hashlib.sha256(ids.astype("<i8").tobytes()).hexdigest()[:DIGITS]


def digest_of_settings(settings: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:DIGITS]
