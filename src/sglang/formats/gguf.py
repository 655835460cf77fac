"""Reads GGUF files (version 2 and 3, little-endian, also split into several): metadata and memory-mapped tensors.

Everything that can be wrong with a file is found while its header is read, before any weight is touched.
"""

from __future__ import annotations

import math
import mmap
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sglang.formats.errors import FormatError
from sglang.formats.ggml_types import BLOCK_SHAPE, GGMLType, dequantize, ggml_type

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
MAX_DIMS = 4

_BOOL, _STRING, _ARRAY = 7, 8, 9
_SCALARS: dict[int, tuple[str, str]] = {  # type number -> (struct code, numpy dtype)
    0: ("<B", "u1"), 1: ("<b", "i1"), 2: ("<H", "<u2"), 3: ("<h", "<i2"), 4: ("<I", "<u4"), 5: ("<i", "<i4"),
    6: ("<f", "<f4"), _BOOL: ("<?", "?"), 10: ("<Q", "<u8"), 11: ("<q", "<i8"), 12: ("<d", "<f8"),
}  # fmt: skip
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_SPLIT_NAME = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$")


@dataclass(frozen=True, slots=True)
class GGUFTensor:
    """One tensor; ``data`` is a read-only view into the mapped file, nothing is copied until it is used."""

    name: str
    shape: tuple[int, ...]
    """Row-major (the file stores the fastest dimension first; this is the reverse)."""
    ggml_type: GGMLType
    data: npt.NDArray[np.uint8]
    """The raw blocks, one-dimensional."""

    def dequantize(self) -> npt.NDArray[np.float32]:
        """The values as a fresh float32 array of ``shape``."""
        return dequantize(self.data, self.ggml_type).reshape(self.shape)


class GGUFFile:
    """A model in GGUF form. Given one part of a split model, all parts are read.

    ``metadata``: numbers, booleans and strings as Python values, string arrays as lists, other arrays as numpy
    arrays; of a split model that of the first part. ``tensors``: name -> tensor, the union over all parts.
    Raises :class:`FormatError` naming the key, tensor or offset at fault.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.parts = split_parts(self.path)
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, GGUFTensor] = {}
        for number, part in enumerate(self.parts):
            metadata, tensors = _read_part(part)
            if number == 0:
                self.metadata = metadata
            twice = self.tensors.keys() & tensors.keys()
            if twice:
                raise FormatError(f"{part}: tensor {min(twice)!r} is already in an earlier part of this split model")
            self.tensors.update(tensors)
        if not self.tensors:
            raise FormatError(f"{self.path}: holds no tensors (only metadata). Use a file that contains the weights.")
        self._check_split_total()

    def _check_split_total(self) -> None:
        expected = self.metadata.get("split.tensors.count")
        if expected is not None and len(self.parts) > 1 and expected != len(self.tensors):
            raise FormatError(
                f"{self.path}: 'split.tensors.count' says {expected} tensors, the parts hold {len(self.tensors)}. "
                "Download all parts again."
            )

    def require(self, key: str) -> Any:
        """A metadata value that must be there; :class:`FormatError` names a missing key."""
        try:
            return self.metadata[key]
        except KeyError:
            raise FormatError(
                f"{self.path}: the metadata key {key!r} is missing. Convert the model to GGUF again with a current "
                "converter, or use another file."
            ) from None


def split_parts(path: Path) -> list[Path]:
    """All parts of a split model in order (``name-00001-of-0000N.gguf``), or just ``path``."""
    match = _SPLIT_NAME.match(path.name)
    if match is None:
        return [path]
    count = int(match["count"])
    parts = [path.with_name(f"{match['stem']}-{number:05d}-of-{count:05d}.gguf") for number in range(1, count + 1)]
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        raise FormatError(
            f"{path}: the split model is incomplete, missing {', '.join(missing)}. "
            f"Put all {count} parts into the folder {path.parent}."
        )
    return parts


def _read_part(path: Path) -> tuple[dict[str, Any], dict[str, GGUFTensor]]:
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise FormatError(f"{path}: no such file. Give the path of an existing .gguf file.") from None
    except ValueError:  # mmap refuses an empty file
        raise FormatError(f"{path}: the file is empty. Download it again.") from None
    return _PartReader(path, mapped).read()


class _PartReader:
    """Walks the header of one file; ``_at`` is the next unread byte, ``_key`` what is being read (for errors)."""

    def __init__(self, path: Path, mapped: mmap.mmap) -> None:
        self._path = path
        self._map = mapped
        self._at = 0
        self._key = "header"

    def read(self) -> tuple[dict[str, Any], dict[str, GGUFTensor]]:
        self._check_magic()
        try:
            tensor_count, key_count = self._u64(), self._u64()
            metadata = self._metadata(key_count)
            self._key = "tensor list"
            infos = [self._tensor_info() for _ in range(self._plausible(tensor_count, 24))]
        except struct.error:
            raise self._truncated() from None
        return metadata, self._map_tensors(infos, self._alignment(metadata))

    def _check_magic(self) -> None:
        magic = self._map[:4]
        if magic != MAGIC:
            raise FormatError(
                f"{self._path}: not a GGUF file (it begins with {magic!r} instead of {MAGIC!r}). "
                "Give a .gguf file; if it was downloaded, the download may be an error page or a Git LFS pointer."
            )
        if len(self._map) < 8:
            self._at = 4
            raise self._truncated()
        version = _U32.unpack_from(self._map, 4)[0]
        self._at = 8
        if version in VERSIONS:
            return
        if int.from_bytes(self._map[4:8], "big") in (1, *VERSIONS):
            raise FormatError(
                f"{self._path}: a big-endian GGUF file (offset 4). Use the little-endian file of the model."
            )
        raise FormatError(
            f"{self._path}: GGUF version {version} (offset 4) is not supported, only {VERSIONS[0]} and {VERSIONS[1]}. "
            "Convert the model again with a current converter."
        )

    def _truncated(self) -> FormatError:
        return FormatError(
            f"{self._path}: the file ends at byte {len(self._map)} in the middle of {self._key!r} (offset {self._at}). "
            "It is truncated or damaged: download it again."
        )

    def _plausible(self, count: int, least_size: int) -> int:
        """``count`` when that many items of at least ``least_size`` bytes can still follow; guards big allocations."""
        if count * least_size > len(self._map) - self._at:
            raise self._truncated()
        return count

    def _u64(self) -> int:
        value: int = _U64.unpack_from(self._map, self._at)[0]
        self._at += 8
        return value

    def _u32(self) -> int:
        value: int = _U32.unpack_from(self._map, self._at)[0]
        self._at += 4
        return value

    def _text(self) -> str:
        length = self._u64()
        start = self._at
        self._at += self._plausible(length, 1)
        return self._decode(self._map[start : self._at])

    def _decode(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise FormatError(
                f"{self._path}: a string of {self._key!r} before offset {self._at} is not valid UTF-8. "
                "The file is damaged: download it again."
            ) from None

    def _metadata(self, count: int) -> dict[str, Any]:
        metadata: dict[str, Any] = {}
        for _ in range(count):
            key = self._text()
            self._key = key
            metadata[key] = self._value(self._u32())
        return metadata

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            item_kind, count = self._u32(), self._u64()
            if item_kind == _STRING:
                return self._texts(self._plausible(count, 8))
            if item_kind == _ARRAY:
                return [self._value(_ARRAY) for _ in range(self._plausible(count, 12))]
            dtype = np.dtype(self._scalar(item_kind)[1])
            values = np.frombuffer(self._map, dtype, self._plausible(count, dtype.itemsize), self._at)
            self._at += values.nbytes
            return values
        reader = struct.Struct(self._scalar(kind)[0])
        value = reader.unpack_from(self._map, self._at)[0]
        self._at += reader.size
        return value

    def _scalar(self, kind: int) -> tuple[str, str]:
        try:
            return _SCALARS[kind]
        except KeyError:
            raise FormatError(
                f"{self._path}: the key {self._key!r} has the unknown value type {kind} (offset {self._at}). "
                "The file is damaged: download it again."
            ) from None

    def _texts(self, count: int) -> list[str]:
        # Vocabularies hold up to 262k strings; this loop is most of the time it takes to open a file.
        mapped, unpack, at = self._map, _U64.unpack_from, self._at
        out: list[str] = []
        try:
            for _ in range(count):
                start = at + 8
                at = start + unpack(mapped, at)[0]
                out.append(mapped[start:at].decode())
        except UnicodeDecodeError:
            self._at = at
            self._decode(mapped[start:at])
        self._at = at
        if at > len(mapped):
            raise self._truncated()
        return out

    def _tensor_info(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._text()
        self._key = name
        dims = self._u32()
        if dims > MAX_DIMS:
            raise FormatError(
                f"{self._path}: tensor {name!r} has {dims} dimensions (offset {self._at}), at most {MAX_DIMS}"
            )
        shape = tuple(self._u64() for _ in range(dims))[::-1]
        return name, shape, self._u32(), self._u64()

    def _alignment(self, metadata: dict[str, Any]) -> int:
        alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment <= 0 or alignment % 8:
            raise FormatError(
                f"{self._path}: 'general.alignment' is {alignment!r}, it must be a positive multiple of 8"
            )
        return alignment

    def _map_tensors(self, infos: list[tuple[str, tuple[int, ...], int, int]], alignment: int) -> dict[str, GGUFTensor]:
        base = -(-self._at // alignment) * alignment
        everything = np.frombuffer(self._map, np.uint8)
        tensors: dict[str, GGUFTensor] = {}
        for name, shape, number, offset in infos:
            kind = ggml_type(number, name)
            elements, block_bytes = BLOCK_SHAPE[kind]
            if shape and shape[-1] % elements:
                raise FormatError(
                    f"{self._path}: tensor {name!r} has rows of {shape[-1]} elements, {kind.name} needs a multiple "
                    f"of {elements}. The file is damaged: download it again."
                )
            start = base + offset
            end = start + math.prod(shape) // elements * block_bytes
            if end > len(everything):
                raise FormatError(
                    f"{self._path}: the file ends at byte {len(everything)} but tensor {name!r} reaches to byte {end}. "
                    "It is truncated: download it again."
                )
            tensors[name] = GGUFTensor(name, shape, kind, everything[start:end])
        return tensors
