"""Hugging Face weight folders: which tensor lies in which safetensors file, with shape and type; one or many files.

Only headers are read here; :meth:`SafetensorsFolder.read` and the loader map the data when they want it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sglang.formats.errors import FormatError

SINGLE_NAME = "model.safetensors"
INDEX_NAME = "model.safetensors.index.json"
MAX_HEADER_BYTES = 100 << 20

ITEM_BYTES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1,
    "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "U32": 4, "U64": 8,
}  # fmt: skip
_NUMPY_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1",
    "BOOL": "?", "U16": "<u2", "U32": "<u4", "U64": "<u8",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SafetensorsEntry:
    """Where one tensor lies: ``nbytes`` bytes of ``file`` from ``offset`` on."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    """The format's name: F32, F16, BF16, ..."""
    file: Path
    offset: int
    nbytes: int


class SafetensorsFolder:
    """All tensors of a folder: ``entries`` maps names to :class:`SafetensorsEntry`.

    With an index file exactly the tensors it lists, each from the file it names. Without, all tensors of the
    folder's .safetensors files. Raises :class:`FormatError` naming a missing file or tensor.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        index = self.path / INDEX_NAME
        self.entries = self._from_index(index) if index.is_file() else self._from_files()

    @property
    def files(self) -> list[Path]:
        """The files that hold the tensors, sorted."""
        return sorted({entry.file for entry in self.entries.values()})

    def read(self, name: str) -> npt.NDArray[Any]:
        """One tensor as a read-only memory-mapped array; BF16 is widened to float32."""
        entry = self._entry(name)
        if entry.dtype == "BF16":
            words = self._map(entry, "<u2")
            return (words.astype(np.uint32) << 16).view(np.float32)
        if entry.dtype not in _NUMPY_TYPES:
            raise FormatError(f"{entry.file}: tensor {name!r} has the type {entry.dtype}, which numpy can't hold")
        return self._map(entry, _NUMPY_TYPES[entry.dtype])

    def _entry(self, name: str) -> SafetensorsEntry:
        try:
            return self.entries[name]
        except KeyError:
            raise FormatError(f"{self.path}: there is no tensor {name!r} (of {len(self.entries)})") from None

    @staticmethod
    def _map(entry: SafetensorsEntry, dtype: str) -> npt.NDArray[Any]:
        if entry.nbytes == 0:
            return np.empty(entry.shape, dtype)
        return np.memmap(entry.file, dtype, "r", entry.offset, entry.shape)

    def _from_files(self) -> dict[str, SafetensorsEntry]:
        single = self.path / SINGLE_NAME
        files = [single] if single.is_file() else sorted(self.path.glob("*.safetensors"))
        if not files:
            pickled = any(self.path.glob("*.bin")) or any(self.path.glob("*.pt"))
            hint = " Its .bin/.pt weights are pickles and are not read: convert them." if pickled else ""
            raise FormatError(f"{self.path}: holds no .safetensors file.{hint}")
        entries: dict[str, SafetensorsEntry] = {}
        for file in files:
            found = read_header(file)
            twice = entries.keys() & found.keys()
            if twice:
                raise FormatError(
                    f"{file}: tensor {min(twice)!r} is also in {entries[min(twice)].file.name}; "
                    f"remove one of the files, or add the index {INDEX_NAME}"
                )
            entries.update(found)
        return entries

    def _from_index(self, index: Path) -> dict[str, SafetensorsEntry]:
        weight_map = _weight_map(index)
        names = sorted(set(weight_map.values()))
        missing = [name for name in names if not (self.path / name).is_file()]
        if missing:
            raise FormatError(
                f"{index}: {len(missing)} of the {len(names)} files it names are missing: {', '.join(missing[:5])}. "
                "Download the model completely."
            )
        headers = {name: read_header(self.path / name) for name in names}
        entries: dict[str, SafetensorsEntry] = {}
        for tensor, file in weight_map.items():
            if tensor not in headers[file]:
                raise FormatError(f"{index}: says that {tensor!r} is in {file}, but it is not. Download both again.")
            entries[tensor] = headers[file][tensor]
        return entries


def _weight_map(index: Path) -> dict[str, str]:
    try:
        weight_map = json.loads(index.read_bytes())["weight_map"]
        plain = all(isinstance(file, str) and Path(file).name == file for file in weight_map.values())
    except (ValueError, KeyError, TypeError, AttributeError):
        plain, weight_map = False, {}
    if not plain or not weight_map:
        raise FormatError(
            f"{index}: must be JSON with a 'weight_map' of tensor names to file names. Download it again."
        )
    return dict(weight_map)


def read_header(file: Path) -> dict[str, SafetensorsEntry]:
    """The entries of one file. The file begins with a 64-bit length and that many bytes of JSON."""
    size = file.stat().st_size
    with file.open("rb") as handle:
        length = int.from_bytes(handle.read(8), "little")
        if size < 8 or length > min(size - 8, MAX_HEADER_BYTES):
            raise FormatError(f"{file}: no safetensors file, or truncated within its header. Download it again.")
        raw = handle.read(length)
    try:
        header = json.loads(raw)
        header.pop("__metadata__", None)
        entries = {name: _entry(file, 8 + length, name, info) for name, info in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise FormatError(f"{file}: the safetensors header is damaged. Download it again.") from None
    for entry in entries.values():
        _check_extent(entry, size)
    return entries


def _entry(file: Path, base: int, name: str, info: dict[str, Any]) -> SafetensorsEntry:
    begin, end = info["data_offsets"]
    if begin < 0:
        raise ValueError(begin)
    shape = tuple(int(dim) for dim in info["shape"])
    return SafetensorsEntry(name, shape, str(info["dtype"]), file, base + int(begin), int(end) - int(begin))


def _check_extent(entry: SafetensorsEntry, file_size: int) -> None:
    item = ITEM_BYTES.get(entry.dtype)
    if item is None:
        raise FormatError(
            f"{entry.file}: tensor {entry.name!r} has the unknown type {entry.dtype}; known: {', '.join(ITEM_BYTES)}"
        )
    if entry.nbytes != math.prod(entry.shape) * item:
        raise FormatError(
            f"{entry.file}: tensor {entry.name!r} has {entry.nbytes} bytes, its shape needs another number"
        )
    if entry.offset + entry.nbytes > file_size:
        raise FormatError(
            f"{entry.file}: the file ends at byte {file_size}, tensor {entry.name!r} reaches to byte "
            f"{entry.offset + entry.nbytes}. It is truncated: download it again."
        )
