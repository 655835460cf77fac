"""ZMQ push/pull sockets that carry records. The only place that knows ZMQ.

The reading end binds, writers connect, so start order does not matter. Queues are unbounded: what bounds them is the
number of requests in flight. Bytes that are no record are logged and dropped; they never stop the reader.
A socket belongs to one thread at a time.
"""

from __future__ import annotations

import logging
from typing import Any

import zmq
import zmq.asyncio

from sglang.ipc.codec import WireError, decode, encode
from sglang.ipc.messages import Message

logger = logging.getLogger(__name__)


def _open(socket: zmq.Socket[Any], address: str, bind: bool) -> None:
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    if bind:
        socket.bind(address)
    else:
        socket.connect(address)


def _read(data: bytes) -> Message | None:
    try:
        return decode(data)
    except WireError as error:
        logger.error("dropped a message: %s", error)
        return None


class PushSocket:
    """Sends records to one reader. ``send`` never blocks."""

    def __init__(self, address: str, bind: bool = False) -> None:
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PUSH)
        _open(self._socket, address, bind)

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
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PULL)
        _open(self._socket, address, bind)

    def recv(self, timeout: float | None = None) -> Message | None:
        """The next record, or None after ``timeout`` seconds without one (None = wait for ever)."""
        milliseconds = None if timeout is None else max(0, int(timeout * 1000))
        while self._socket.poll(milliseconds):
            message = _read(self._socket.recv())
            if message is not None:
                return message
        return None

    def drain(self) -> list[Message]:
        """All records that have arrived; does not wait."""
        received: list[Message] = []
        while True:
            try:
                message = _read(self._socket.recv(zmq.NOBLOCK))
            except zmq.Again:
                return received
            if message is not None:
                received.append(message)

    def close(self) -> None:
        self._socket.close()


class AsyncPullSocket:
    """Receives records inside the event loop that first calls :meth:`recv`."""

    def __init__(self, address: str, bind: bool = True) -> None:
        self._socket: zmq.asyncio.Socket = zmq.asyncio.Context(zmq.Context.instance()).socket(zmq.PULL)
        _open(self._socket, address, bind)

    async def recv(self) -> Message:
        while True:
            message = _read(await self._socket.recv())
            if message is not None:
                return message

    def close(self) -> None:
        self._socket.close()
