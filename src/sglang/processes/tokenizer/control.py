"""Questions to the scheduler, each paired with its answer by ``call_id``."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import TypeVar

from sglang.ipc.messages import ControlReq, Message

Reply = TypeVar("Reply", bound=ControlReq)


class ControlDesk:
    """Asks and waits. Lives in one event loop."""

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._open: dict[int, asyncio.Future[ControlReq]] = {}
        self._error: Exception | None = None

    async def ask(self, question: ControlReq, reply_type: type[Reply]) -> Reply:
        """Send ``question`` and wait for its answer. Raises what :meth:`fail` was given once the scheduler is gone."""
        if self._error is not None:
            raise self._error
        question.call_id = next(self._numbers)
        future: asyncio.Future[ControlReq] = asyncio.get_running_loop().create_future()
        self._open[question.call_id] = future
        try:
            self._send(question)
            reply = await future
        finally:
            self._open.pop(question.call_id, None)
        if not isinstance(reply, reply_type):
            raise TypeError(f"{type(question).__name__} was answered by {type(reply).__name__}")
        return reply

    def answer(self, reply: ControlReq) -> None:
        """Hand an answer to whoever asked; answers nobody waits for (the caller left) are dropped."""
        future = self._open.pop(reply.call_id, None)
        if future is not None and not future.done():
            future.set_result(reply)

    def fail(self, error: Exception) -> None:
        """End all open and future questions with ``error``."""
        self._error = error
        for future in self._open.values():
            if not future.done():
                future.set_exception(error)
        self._open.clear()
