"""A response while it is made."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import orjson

from sglang.api.chat.run import ChatRun
from sglang.api.openai.responses.assemble import Assembler
from sglang.api.openai.responses.form import FINISHED, Event
from sglang.ipc.errors import InvalidRequest, RequestAborted

logger = logging.getLogger(__name__)

Settled = Callable[["dict[str, Any] | None"], None]


class LiveResponse:
    """Drives one chat to its end, once: take :meth:`steps` or :meth:`whole`.

    ``settled`` is called exactly once: with the final response object, or with None where nothing came of the
    request before it was refused or its caller left.
    """

    def __init__(self, run: ChatRun, assembler: Assembler, settled: Settled | None = None) -> None:
        self._run = run
        self._assembler = assembler
        self._settled = settled
        self._cancelled = False

    @property
    def response(self) -> dict[str, Any]:
        """The newest state of the response object."""
        response = self._assembler.response
        if self._cancelled and response["status"] not in FINISHED:
            return {**response, "status": "cancelled"}
        return response

    def cancel(self) -> None:
        """Stop it; the steps then end soon, with status cancelled."""
        self._cancelled = True
        self._run.group.abort()

    async def whole(self) -> dict[str, Any]:
        """Raises as :meth:`steps` does."""
        async with aclosing(self.steps()) as steps:
            async for _ in steps:
                pass
        return self.response

    async def steps(self, queued: bool = False) -> AsyncGenerator[list[Event], None]:
        """The events of each step. Leaving early aborts the work.

        With ``queued`` they begin before the first token, and nothing is raised. Otherwise InvalidRequest and
        RequestAborted are, where the scheduler refuses the request before its first token. Later refusals end the
        response as failed.
        """
        assembler = self._assembler
        started = False
        try:
            if queued:
                yield assembler.queue()
            async with aclosing(self._run.updates()) as updates:
                async for update in updates:
                    opening = [] if started else assembler.start(created=not queued)
                    started = True
                    if events := opening + assembler.update(update):
                        yield events
            yield self._finish(None)
        except (InvalidRequest, RequestAborted) as error:
            if not (started or queued):
                raise
            yield self._finish(str(error))
        except Exception:
            if not (started or queued):
                raise
            logger.exception("a response failed")
            yield self._finish("Internal server error")
        finally:
            self._settle(started or queued)

    def _finish(self, error: str | None) -> list[Event]:
        if error is None:
            error = (self._run.group.streams[0].finish_reason or {}).get("message")
        return self._assembler.finish(self._run.usage(), error, self._cancelled)

    def _settle(self, started: bool) -> None:
        if started and self._assembler.response["status"] not in FINISHED:
            self._cancelled = True  # whoever listened has gone, and the work with them
            self._finish(None)
        if self._settled is not None:
            self._settled(self._assembler.response if started else None)


def encode(event: Event) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), orjson.dumps(event))
