"""The scheduler's life: receive → choose → run → settle → send, until the process ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

from sglang.executor.batch import Executor, ForwardBatch, StepResult
from sglang.ipc.messages import (
    AbortReq,
    BatchTokenIDOutput,
    ContinueGenerationReqInput,
    ContinueGenerationReqOutput,
    FlushCacheReqInput,
    FlushCacheReqOutput,
    GetInternalStateReq,
    GetInternalStateReqOutput,
    Message,
    PauseGenerationReqInput,
    PauseGenerationReqOutput,
    TokenizedGenerateReqInput,
)
from sglang.processes.scheduler.core import SchedulerCore
from sglang.processes.scheduler.isolate import run_row_by_row
from sglang.processes.scheduler.request import abort_reason, mistake

logger = logging.getLogger(__name__)


class Inbox(Protocol):
    """Where records arrive."""

    def recv(self, timeout: float | None = None) -> Message | None:
        """The next record, or None after ``timeout`` seconds (None: wait for ever)."""
        ...

    def drain(self) -> list[Message]:
        """All records that have arrived; does not wait."""
        ...


class Outlet(Protocol):
    """Where records go."""

    def send(self, message: Message) -> None: ...


class SchedulerLoop:
    """Drives a core with an executor and sockets. Blocks on the inbox whenever there is nothing to compute.

    ``state`` describes the process for ``GetInternalStateReq``; given the core's load record it returns
    (internal state, completed load record).
    """

    def __init__(
        self,
        core: SchedulerCore,
        executor: Executor,
        inbox: Inbox,
        to_detokenizer: Outlet,
        to_tokenizer: Outlet,
        state: Callable[[dict[str, Any]], tuple[dict[str, Any], dict[str, Any]]] = lambda load: ({}, load),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._core = core
        self._executor = executor
        self._inbox = inbox
        self._to_detokenizer = to_detokenizer
        self._to_tokenizer = to_tokenizer
        self._state = state
        self._clock = clock
        self._computed = False
        """Whether the last turn ran a batch; if not, only a message or a deadline can change anything."""
        self._flush: FlushCacheReqInput | None = None
        self._flush_deadline = 0.0

    def run(self) -> None:
        """Turn for ever. An error that no single request caused ends it."""
        while True:
            self.turn()

    def turn(self) -> None:
        """Take in what has arrived, compute at most one step, send what came of it."""
        for message in self._receive():
            self._dispatch(message)
        batch = self._core.next_batch()
        self._computed = batch is not None
        if batch is not None:
            result, failed = self._compute(batch)
            self._core.settle(batch, result, failed)
        self._send_outputs()
        self._try_flush()

    # -------------------------------------------------------------- in

    def _receive(self) -> list[Message]:
        if self._computed:
            return self._inbox.drain()
        first = self._inbox.recv(self._patience())
        return [] if first is None else [first, *self._inbox.drain()]

    def _patience(self) -> float | None:
        """Seconds until something is due without a message; None: nothing is."""
        deadline = self._core.next_deadline()
        due = [] if deadline is None else [deadline]
        if self._flush is not None:
            due.append(self._flush_deadline)
        return max(0.0, min(due) - self._clock()) + 0.001 if due else None

    def _dispatch(self, message: Message) -> None:
        core = self._core
        if isinstance(message, TokenizedGenerateReqInput):
            self._add(message)
        elif isinstance(message, AbortReq):
            core.abort(message.rid, message.abort_all)
        elif isinstance(message, FlushCacheReqInput):
            self._start_flush(message)
        elif isinstance(message, GetInternalStateReq):
            state, load = self._state(core.load())
            self._to_tokenizer.send(GetInternalStateReqOutput(call_id=message.call_id, internal_state=state, load=load))
        elif isinstance(message, PauseGenerationReqInput):
            core.pause(message.mode)
            self._send_outputs()
            self._to_tokenizer.send(PauseGenerationReqOutput(call_id=message.call_id))
        elif isinstance(message, ContinueGenerationReqInput):
            core.resume()
            self._to_tokenizer.send(ContinueGenerationReqOutput(call_id=message.call_id))
        else:
            logger.error("the scheduler got a %s, which it does not know", type(message).__name__)

    def _add(self, request: TokenizedGenerateReqInput) -> None:
        try:
            self._core.add(request)
        except Exception as error:
            logger.exception("request %s could not be queued", request.rid)
            reason = abort_reason(mistake(error), 500, "InternalServerError")
            self._to_tokenizer.send(AbortReq(rid=request.rid, finished_reason=reason))

    # -------------------------------------------------------------- compute and out

    def _compute(self, batch: ForwardBatch) -> tuple[StepResult, dict[int, str]]:
        try:
            return self._executor.run(batch), {}
        except Exception as error:
            logger.exception("a step of %d rows failed; trying its rows one by one", len(batch.query_lens))
            return run_row_by_row(self._executor, batch, error)

    def _send_outputs(self) -> None:
        for message in self._core.take_outputs():
            outlet = self._to_detokenizer if isinstance(message, BatchTokenIDOutput) else self._to_tokenizer
            outlet.send(message)

    # -------------------------------------------------------------- flush

    def _start_flush(self, message: FlushCacheReqInput) -> None:
        """Flush now, or keep the order until the core is idle: one at a time."""
        if self._flush is not None:
            self._answer_flush(message, False, "another flush is still waiting for the server to be idle")
        elif self._core.flush_cache():
            self._answer_flush(message, True, "Cache flushed.")
        elif message.timeout > 0:
            self._flush = message
            self._flush_deadline = self._clock() + message.timeout
        else:
            self._answer_flush(message, False, "requests are running or waiting; give a timeout to wait for them")

    def _try_flush(self) -> None:
        message = self._flush
        if message is None:
            return
        if self._core.flush_cache():
            self._answer_flush(message, True, "Cache flushed.")
        elif self._clock() >= self._flush_deadline:
            self._answer_flush(message, False, f"requests were still running after {message.timeout:g} s")
        else:
            return
        self._flush = None

    def _answer_flush(self, message: FlushCacheReqInput, success: bool, text: str) -> None:
        self._to_tokenizer.send(FlushCacheReqOutput(call_id=message.call_id, success=success, message=text))
