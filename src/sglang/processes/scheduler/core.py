"""The scheduler as a pure state machine: requests in, batches out, results in, outputs out.

No sockets, no torch, no clock of its own. A turn is ``add``/``abort`` … → ``next_batch`` → (run it) → ``settle`` →
``take_outputs``; ``pause``, ``resume`` and ``flush_cache`` are for between turns.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

from sglang.executor.batch import ForwardBatch, StepResult
from sglang.grammar.compiler import GrammarSource
from sglang.grammar.spec import GrammarError
from sglang.ipc.errors import InvalidRequest
from sglang.ipc.messages import HealthCheckOutput, Message, TokenizedGenerateReqInput
from sglang.processes.scheduler.admit import Admission, mix, prefill_batch
from sglang.processes.scheduler.config import SchedulerConfig
from sglang.processes.scheduler.decoding import NewTokenRatio, RunningSet, retraction_order
from sglang.processes.scheduler.grammar import POLL_SECONDS, GrammarQueue, refusal
from sglang.processes.scheduler.memory import KVMemory
from sglang.processes.scheduler.outputs import Outbox
from sglang.processes.scheduler.request import FinishReason, Request, TextWatchFactory, abort_reason
from sglang.processes.scheduler.settle import Flight, Settlement
from sglang.processes.scheduler.stats import SchedulerStats
from sglang.processes.scheduler.waiting import WaitingQueue

logger = logging.getLogger(__name__)

PAUSE_MODES = ("abort", "retract", "in_place")
_IN_QUEUE: FinishReason = {"type": "abort", "message": "Abort in waiting queue"}


class SchedulerCore:
    """Queue, memory and running set of one model replica. Deterministic: time and randomness are injected."""

    def __init__(
        self,
        config: SchedulerConfig,
        text_watch_factory: TextWatchFactory | None = None,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
        grammars: GrammarSource | None = None,
    ) -> None:
        self.config = config
        self.memory = KVMemory(config)
        self.waiting = WaitingQueue(config, self.memory, rng or random.Random(0))
        self.compiling = GrammarQueue(config, grammars)
        self.running = RunningSet(config)
        self.ratio = NewTokenRatio(config)
        self.stats = SchedulerStats(config, clock())
        self.outbox = Outbox()
        self.paused = False
        self._clock = clock
        self._text_watch_factory = text_watch_factory
        self._live: dict[str, Request] = {}
        self._doomed: list[Request] = []  # requests with memory that were aborted since the last step
        self._flight: Flight | None = None
        self._admission = Admission(config, self.memory, self.waiting, self.running, self.ratio, self._retract)
        self._settlement = Settlement(self.memory, self.running, self.outbox, self._forget)

    # -------------------------------------------------------------- state

    @property
    def is_idle(self) -> bool:
        """Nobody waits and nobody holds memory."""
        return not self._live

    def next_deadline(self) -> float | None:
        """When the next request times out (time of the injected clock), should nothing happen before."""
        config = self.config
        due = [self._clock() + POLL_SECONDS] if len(self.compiling) else []
        for request in self._live.values() if config.has_timeouts else ():
            if request.started_at is None:
                if config.waiting_timeout is not None:
                    due.append(request.enqueued_at + config.waiting_timeout)
            elif config.running_timeout is not None:
                due.append(request.started_at + config.running_timeout)
        return min(due, default=None)

    @property
    def chunked(self) -> Request | None:
        """The request whose prompt is partly computed."""
        return self._admission.chunked

    @property
    def holders(self) -> list[Request]:
        """Requests that hold a row and slots."""
        inside = list(self.running.requests)
        if self._flight is not None:
            inside += [piece.request for piece in self._flight.pieces]
        if self.chunked is not None and self.chunked not in inside:
            inside.append(self.chunked)
        return inside

    # -------------------------------------------------------------- in

    def add(self, spec: TokenizedGenerateReqInput) -> None:
        """Queue a request, or answer at once why not."""
        if spec.is_health_check and (self.paused or not self.is_idle):
            # a busy scheduler shows its health by working; a paused one must not look healthy
            if not self.paused:
                self.outbox.send(HealthCheckOutput(rid=spec.rid))
            return
        if spec.rid in self._live:
            logger.warning("dropped a second request with the id %r, which is still in use", spec.rid)
            return
        reason = self._refusal(spec)
        if reason is not None:
            self.outbox.drop(spec.rid, reason)
            return
        request = Request(spec, self.config)
        if spec.sampling_params.stop or spec.sampling_params.stop_regex:
            try:
                if self._text_watch_factory is not None:
                    request.watch = self._text_watch_factory(request.decode_spec())
            except InvalidRequest as error:
                self.outbox.drop(spec.rid, abort_reason(str(error), 400, "BadRequestError"))
                return
        if self._queue_is_full(request):
            return
        request.enqueued_at = self._clock()
        request.processed_before = self.stats.processed_tokens
        try:
            held = self.compiling.hold(request)
        except GrammarError as error:
            self.outbox.drop(spec.rid, refusal(error))
            return
        self._live[request.rid] = request
        if not held:
            self.waiting.add(request)

    def abort(self, rid: str = "", abort_all: bool = False) -> None:
        """End one request or all. Waiting ones end now, the others when the next batch is chosen or settled."""
        targets = list(self._live.values()) if abort_all else [self._live[rid]] if rid in self._live else []
        for request in targets:
            if self._is_queued(request):
                self._end_waiting(request, _IN_QUEUE)
            else:
                self._doom(request, abort_reason("Aborted"))

    # -------------------------------------------------------------- the turn

    def next_batch(self) -> ForwardBatch | None:
        """Choose the next step: a prefill pass if anybody can be admitted, else a decode step, else None."""
        assert self._flight is None, "the last batch is not settled"
        self._expire()
        self._take_compiled()
        self._reap()
        if self.paused:
            return None
        pieces = self._admission.plan(self.stats.processed_tokens)
        if pieces:
            return self._prefill(Flight(pieces))
        if len(self.running):
            return self._decode()
        if self.chunked is not None:
            # nobody is left who could free memory
            stuck = self._take_chunked()
            assert stuck is not None
            self._end_out_of_memory(stuck)
            return self.next_batch()
        self._rest()
        return None

    def settle(self, batch: ForwardBatch, result: StepResult, failed: Mapping[int, str] | None = None) -> None:
        """Apply the result of the batch that :meth:`next_batch` gave. Rows in ``failed`` (row → message) end with
        an error 500; their entries in ``result`` are placeholders."""
        flight = self._flight
        assert flight is not None, "no batch is being computed"
        self._flight = None
        now = self._clock()
        prompt_tokens = sum(piece.end - piece.start for piece in flight.pieces)
        self.stats.step(prompt_tokens, len(self.running) if flight.decodes else 0, now - flight.started_at, now)
        if flight.decodes:
            self.ratio.decay()
        ended_chunk = self._settlement.apply(flight, result, failed or {})
        if ended_chunk is not None:
            self._admission.chunked = None

    def take_outputs(self) -> list[Message]:
        """Everything to send since the last call."""
        return self.outbox.take()

    # -------------------------------------------------------------- control

    def flush_cache(self) -> bool:
        """Forget the prefix cache. False while requests run (or wait, unless paused)."""
        if self.holders or (len(self.waiting) and not self.paused):
            return False
        self._rest()
        self.memory.flush()
        return True

    def pause(self, mode: str = "abort") -> None:
        """Stop choosing batches. ``abort`` ends all requests, ``retract`` sends them back to the queue (their memory
        is freed), ``in_place`` leaves them as they are."""
        if mode not in PAUSE_MODES:
            raise InvalidRequest(f"mode is {mode!r}; accepted: {', '.join(PAUSE_MODES)}", "mode")
        assert self._flight is None, "pause between turns only"
        self.paused = True
        if mode == "abort":
            self.abort(abort_all=True)
        self._reap()
        if mode == "retract":
            self._park_chunked()
            self._retract(list(self.running.requests))

    def resume(self) -> None:
        self.paused = False

    def load(self) -> dict[str, Any]:
        """The core load record of ``GET /v1/loads`` (without timestamp and rank) and the queue lengths."""
        waiting = list(self.waiting)
        used = self.memory.used
        running = len(self.running) + (self.chunked is not None)
        retracted = sum(request.retractions > 0 for request in waiting)
        return {
            "num_running_reqs": running,
            "num_waiting_reqs": len(waiting),
            "num_waiting_uncached_tokens": sum(request.total_len for request in waiting),
            "num_used_tokens": used,
            "kv_available_tokens": self.memory.slots.free_slots,
            "kv_evictable_tokens": self.memory.cache.evictable_size,
            "num_total_tokens": used + sum(request.total_len for request in waiting),
            "num_active_tokens": used,
            "num_prealloc_ready_tokens": 0,
            "max_total_num_tokens": self.memory.size,
            "max_running_requests": self.config.max_running_requests,
            "token_usage": round(used / self.memory.size, 4),
            "utilization": round(running / self.config.max_running_requests, 4),
            **self.stats.snapshot(),
            "queues": {
                "waiting": len(waiting),
                "grammar": len(self.compiling),
                "paused": len(self._live) if self.paused else 0,
                "retracted": retracted,
                "prealloc_ready": 0,
            },
        }

    def check_invariants(self) -> None:
        """Raise AssertionError unless every slot is owned once, sizes add up and no request is lost. Between turns."""
        self.running.sync(self.memory)
        holders = self.holders
        self.memory.check(holders)
        queued = [*self.waiting, *self.compiling]
        assert {r.rid for r in holders} | {r.rid for r in queued} == set(self._live), "a request is lost"
        assert len(holders) + len(queued) == len(self._live), "a request is in two places"

    # -------------------------------------------------------------- steps

    def _prefill(self, flight: Flight) -> ForwardBatch:
        batch = prefill_batch(flight.pieces, self.memory)
        for piece in flight.pieces:
            request = piece.request
            if request.started_at is None:
                request.started_at = self._clock()
                self.stats.cached_tokens += request.cached_tokens or 0
        if self.config.mixes and len(self.running):
            decode = self.running.batch(self.memory)
            if decode is not None:  # else memory is short: decode alone, where requests can be retracted
                mix(batch, decode)
                flight.decodes = True
        return self._launch(flight, batch)

    def _decode(self) -> ForwardBatch | None:
        batch = self.running.batch(self.memory)
        if batch is None:
            self._make_room()
            if not len(self.running):
                return self.next_batch()
            batch = self.running.batch(self.memory)
            assert batch is not None, "making room didn't make room"
        return self._launch(Flight(decodes=True), batch)

    def _launch(self, flight: Flight, batch: ForwardBatch) -> ForwardBatch:
        flight.started_at = self._clock()
        self._flight = flight
        return batch

    def _rest(self) -> None:
        """Nobody holds memory: forget what the last load taught, and see that all memory is back."""
        self.ratio.reset()
        self.stats.idle(self._clock())
        leak = self.memory.leak()
        if leak is not None:
            logger.error("%s; the prefix cache is emptied to get it back", leak)
            self.memory.flush()

    # -------------------------------------------------------------- memory pressure

    def _make_room(self) -> None:
        """Retract until the next decode step fits. The half-prefilled request gives way first: its work stays in the
        cache while there is room."""
        self._park_chunked()
        order = retraction_order(self.running.requests, self.config.retraction_policy)
        for victim in order:
            if self.running.pages_needed(self.memory) * self.config.page_size <= self.memory.available:
                break
            if len(self.running) == 1:
                self.running.drop({victim}, self.memory)
                self._end_out_of_memory(victim)
                return
            self._retract([victim])
        self.ratio.raise_after_retraction(self.running.requests)

    def _retract(self, victims: list[Request]) -> None:
        """Send running requests back to the queue; prompt and output will be computed again."""
        self.running.drop(set(victims), self.memory)
        for request in victims:
            self.memory.close(request, share=False)
            self._requeue(request)

    def _park_chunked(self) -> None:
        request = self._take_chunked()
        if request is not None:
            self.memory.close(request, share=True)
            self._requeue(request)

    def _requeue(self, request: Request) -> None:
        request.retractions += 1
        self.stats.retractions += 1
        self.waiting.put_back(request)

    def _take_chunked(self) -> Request | None:
        request, self._admission.chunked = self._admission.chunked, None
        return request

    # -------------------------------------------------------------- ends

    def _refusal(self, spec: TokenizedGenerateReqInput) -> FinishReason | None:
        length, config = len(spec.input_ids), self.config
        if length == 0:
            return abort_reason("the prompt has no tokens", 400, "BadRequestError")
        if length >= config.context_length:
            text = f"the prompt has {length} tokens, the context holds {config.context_length} with one to generate"
            return abort_reason(text, 400, "BadRequestError")
        if length > config.max_req_input_len:
            text = f"the prompt has {length} tokens, the KV pool only {config.capacity}; raise --max-total-tokens"
            return abort_reason(text, 400, "BadRequestError")
        unwanted = config.abort_on_priority_when_disabled and not config.enable_priority_scheduling
        if unwanted and spec.priority is not None:
            text = "the request has a priority, but priority scheduling is off (--enable-priority-scheduling)"
            return abort_reason(text, 503, "ServiceUnavailableError")
        return None

    def _queue_is_full(self, request: Request) -> bool:
        """Make place for a newcomer that is worth more than the worst waiting request, else refuse it."""
        limit = self.config.max_queued_requests
        if limit is None or len(self.waiting) + len(self.compiling) < limit:
            return False
        reason = abort_reason(f"The request queue is full ({limit} requests wait)", 503, "ServiceUnavailableError")
        if len(self.waiting) and request.priority > self.waiting.worst().priority:
            self._end_waiting(self.waiting.worst(), reason)
            return False
        self.outbox.drop(request.rid, reason)
        return True

    def _expire(self) -> None:
        config = self.config
        if not config.has_timeouts:
            return
        now = self._clock()
        for request in list(self._live.values()):
            if request.started_at is None:
                if config.waiting_timeout is not None and now >= request.enqueued_at + config.waiting_timeout:
                    self._time_out(request, f"the request waited longer than {config.waiting_timeout:g} s in the queue")
            elif config.running_timeout is not None and now >= request.started_at + config.running_timeout:
                self._time_out(request, f"the request ran longer than {config.running_timeout:g} s")

    def _time_out(self, request: Request, text: str) -> None:
        reason = abort_reason(text, 503, "ServiceUnavailableError")
        if self._is_queued(request):
            self._end_waiting(request, reason)
        else:
            self._doom(request, reason)

    def _is_queued(self, request: Request) -> bool:
        """Whether it holds no memory."""
        return request in self.compiling or self.waiting.get(request.rid) is request

    def _take_compiled(self) -> None:
        """Requests whose grammar is ready get in line; those whose grammar is refused end."""
        for request, reason in self.compiling.ready() if len(self.compiling) else ():
            if reason is None:
                self.waiting.add(request)
            else:
                request.finished = reason
                self.outbox.drop(request.rid, reason)
                self._forget(request)

    def _doom(self, request: Request, reason: FinishReason) -> None:
        if request.abort is None:
            request.abort = reason
            self._doomed.append(request)

    def _reap(self) -> None:
        """End the aborted requests that hold memory, without computing another token for them."""
        doomed = [request for request in self._doomed if request.finished is None]
        self._doomed.clear()
        if not doomed:
            return
        self.running.drop(set(doomed), self.memory)
        if self.chunked in doomed:
            self._take_chunked()
        for request in doomed:
            request.finished = request.abort
            self._settlement.end(request)

    def _end_waiting(self, request: Request, reason: FinishReason) -> None:
        if request in self.compiling:
            self.compiling.remove(request)
        else:
            self.waiting.remove(request)
        request.finished = reason
        if request.opened or request.output_ids:
            self.outbox.report(request)  # it ran before: whoever follows its text must hear of the end
        else:
            self.outbox.drop(request.rid, reason)
        self._forget(request)

    def _end_out_of_memory(self, request: Request) -> None:
        text = "out of KV memory although all other requests were retracted; raise --max-total-tokens"
        request.finished = abort_reason(text, 500, "InternalServerError")
        self._settlement.end(request, share=False)

    def _forget(self, request: Request) -> None:
        del self._live[request.rid]
