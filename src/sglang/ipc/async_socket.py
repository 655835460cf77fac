"""A reading socket inside an event loop. Apart from the plain ones, because only one process needs asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import zmq

from sglang.ipc.messages import Message
from sglang.ipc.sockets import EVENTS, NOBLOCK, POLLIN, open_socket, read_record

MOST_AT_ONCE = 64
"""Records handled before the loop may do something else."""


class AsyncPullSocket:
    """Hands every record that arrives to one function, in the event loop, without a task or future for each."""

    def __init__(self, address: str, bind: bool = True) -> None:
        self._socket = open_socket(zmq.PULL, address, bind)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handle: Callable[[Message], None] | None = None

    def listen(self, handle: Callable[[Message], None]) -> None:
        """Call ``handle`` for every record, in the running event loop. It must not raise."""
        self._loop, self._handle = asyncio.get_running_loop(), handle
        self._loop.add_reader(self._socket.FD, self._drain)
        self._loop.call_soon(self._drain)  # the descriptor tells of changes only: see what has arrived before

    def _drain(self) -> None:
        handle, socket = self._handle, self._socket
        if handle is None:
            return
        for _ in range(MOST_AT_ONCE):
            if not socket.get(EVENTS) & POLLIN:  # type: ignore[operator]
                return
            message = read_record(socket.recv(NOBLOCK))
            if message is not None:
                handle(message)
                if self._handle is None:  # closed by what it did
                    return
        assert self._loop is not None
        self._loop.call_soon(self._drain)

    def close(self) -> None:
        """Stop listening. In the loop's thread, or after the loop has ended."""
        self._handle = None
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._socket.FD)
        self._socket.close()
