"""Arrays as fields of records. Apart from the codec, because whoever sends none need not load NumPy."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from sglang.ipc.codec import WireError


class TensorBuffer(msgspec.Struct, frozen=True):
    """A tensor on the wire: C-ordered raw bytes with NumPy dtype name and shape (fields of records)."""

    data: bytes
    dtype: str
    shape: tuple[int, ...]

    @classmethod
    def pack(cls, array: npt.NDArray[Any]) -> TensorBuffer:
        if array.dtype.hasobject:
            raise TypeError(f"arrays of dtype {array.dtype} hold Python objects and can't travel; use a numeric dtype")
        return cls(np.ascontiguousarray(array).tobytes(), array.dtype.str, array.shape)

    def unpack(self) -> npt.NDArray[Any]:
        """A read-only array over the received bytes. Raises :class:`WireError` where the three don't fit together."""
        try:
            dtype = np.dtype(self.dtype)
            if dtype.hasobject:
                raise ValueError("object dtypes are refused")
            return np.frombuffer(self.data, dtype).reshape(self.shape)
        except (TypeError, ValueError) as error:
            text = f"tensor of {len(self.data)} bytes, dtype {self.dtype!r}, shape {self.shape}: {error}"
            raise WireError(text) from error
