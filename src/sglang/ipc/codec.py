"""Records to bytes and back: MessagePack with a fixed, tagged vocabulary."""

from __future__ import annotations

from typing import Any, Union

import msgspec

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
