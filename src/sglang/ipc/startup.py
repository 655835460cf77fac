"""The pipe over which a child tells its parent that it is ready, or why it failed."""

from __future__ import annotations

from multiprocessing.connection import Connection

from sglang.ipc.codec import WireError, decode, encode
from sglang.ipc.messages import Message, ProcessFailed, ProcessReady


class ReadySender:
    """The child's end. Picklable while a process is being spawned."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send(self, message: ProcessReady | ProcessFailed) -> None:
        self._connection.send_bytes(encode(message))


def read_ready(connection: Connection) -> Message | None:
    """The next record of the parent's end; None when the child closed its end without a (valid) word."""
    try:
        return decode(connection.recv_bytes())
    except (EOFError, OSError, WireError):
        return None
