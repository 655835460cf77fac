"""One tensor as a checkpoint stores it, whatever the file: bytes, their type, and what must still be done to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sglang.formats.ggml_types import BLOCK_SHAPE, GGMLType, dequantize

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class RawTensor:
    """Read only when asked. Backends with kernels for ``kind`` take ``rows``; all others ``dense``."""

    name: str
    """Name in the checkpoint, for messages."""
    shape: tuple[int, ...]
    """Logical shape, outermost dimension first (``[out, in]`` for matrices)."""
    kind: GGMLType
    read: Callable[[], Bytes]
    """The stored bytes, one-dimensional; the caller must not write to them."""
    row_order: npt.NDArray[np.int64] | None = None
    """Row i of the tensor is the stored row ``row_order[i]``. Blocks lie within rows, so they need not be expanded."""
    offset: float = 0.0
    """Added to every value after expansion."""

    @property
    def row_bytes(self) -> int:
        """Stored bytes of one row; in a vector every block is a row."""
        elements, size = BLOCK_SHAPE[self.kind]
        return self.shape[-1] // elements * size if len(self.shape) > 1 else size

    def rows(self) -> Bytes:
        """The stored bytes in row order, ``[rows, row_bytes]``."""
        stored = self.read().reshape(-1, self.row_bytes)
        return stored if self.row_order is None else stored[self.row_order]

    def dense(self) -> npt.NDArray[np.float32]:
        """The values as float32 in ``shape``; the caller must not write to them."""
        values = dequantize(self.rows().reshape(-1), self.kind).reshape(self.shape)
        return values + np.float32(self.offset) if self.offset else values


def stand_in(name: str, shape: tuple[int, ...]) -> RawTensor:
    """Takes the place of a tensor that can't be used: zeros without a file."""
    size = int(np.prod(shape))
    return RawTensor(name, shape, GGMLType.F32, lambda: np.zeros(4 * size, np.uint8))


def narrowed(values: npt.NDArray[Any]) -> Bytes:
    """Values of any float type as the bytes of a float32 tensor."""
    return np.ascontiguousarray(values, np.float32).view(np.uint8).reshape(-1)
