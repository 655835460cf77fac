"""Records to bytes and back: MessagePack with a fixed, tagged vocabulary."""

from __future__ import annotations

from typing import Any, Union

import msgspec
import numpy as np
import numpy.typing as npt

from sglang.ipc import messages
from sglang.ipc.messages import Message

BASES = (messages.Message, messages.ControlReq)
RECORDS: tuple[type[Message], ...] = tuple(
    value
    for value in vars(messages).values()
    if isinstance(value, type) and issubclass(value, Message) and value not in BASES
)

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Union[RECORDS])  # noqa: UP007 - built at run time


class WireError(ValueError):
    """Bytes that are no record of :mod:`sglang.ipc.messages`."""


def encode(message: Message) -> bytes:
    """Bytes of one record. Thread-safe."""
    return _encoder.encode(message)


def decode(data: bytes | memoryview) -> Message:
    """The record in ``data``. Raises :class:`WireError` for anything else. Thread-safe."""
    try:
        record = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"{len(data)} bytes that are no known record: {error}") from error
    assert isinstance(record, Message)
    return record


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
