"""ZMQ push/pull sockets that carry records. The only place that knows ZMQ.

The reading end binds, writers connect, so start order does not matter. Queues are unbounded: what bounds them is the
number of requests in flight. Bytes that are no record are logged and dropped; they never stop the reader.
A socket belongs to one thread at a time.
"""

from __future__ import annotations

import logging

import zmq

from sglang.ipc.codec import WireError, decode, encode
from sglang.ipc.messages import Message

logger = logging.getLogger(__name__)

NOBLOCK, POLLIN, EVENTS = int(zmq.NOBLOCK), int(zmq.POLLIN), int(zmq.EVENTS)
"""As plain numbers: arithmetic on pyzmq's enums takes longer than the calls that they are for."""


def open_socket(kind: int, address: str, bind: bool) -> zmq.Socket[bytes]:
    """A socket with unbounded queues that forgets, when it is closed, what it has not sent."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    if bind:
        socket.bind(address)
    else:
        socket.connect(address)
    return socket


def read_record(data: bytes) -> Message | None:
    """The record in ``data``; what is none is logged, and None."""
    try:
        return decode(data)
    except WireError as error:
        logger.error("dropped a message: %s", error)
        return None


class PushSocket:
    """Sends records to one reader. ``send`` never blocks."""

    def __init__(self, address: str, bind: bool = False) -> None:
        self._socket = open_socket(zmq.PUSH, address, bind)

    def send(self, message: Message) -> None:
        self.send_encoded(encode(message))

    def send_encoded(self, data: bytes) -> None:
        """Send a record that :func:`sglang.ipc.codec.encode` has already turned into bytes."""
        self._socket.send(data, copy=False)

    def close(self) -> None:
        self._socket.close()


class PullSocket:
    """Receives records, blocking or not."""

    def __init__(self, address: str, bind: bool = True) -> None:
        self._socket = open_socket(zmq.PULL, address, bind)

    def recv(self, timeout: float | None = None) -> Message | None:
        """The next record, or None after ``timeout`` seconds without one (None = wait for ever)."""
        while timeout is None or self._socket.poll(max(0, int(timeout * 1000))):
            message = read_record(self._socket.recv())
            if message is not None:
                return message
        return None

    def drain(self) -> list[Message]:
        """All records that have arrived; does not wait."""
        received: list[Message] = []
        while self._socket.get(EVENTS) & POLLIN:  # type: ignore[operator]
            message = read_record(self._socket.recv(NOBLOCK))
            if message is not None:
                received.append(message)
        return received

    def close(self) -> None:
        self._socket.close()
