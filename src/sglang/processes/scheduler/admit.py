"""Prefill admission: which waiting requests get memory now, and how much of their prompt is computed in this pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sglang.executor.batch import ForwardBatch, PromptLogprobRow
from sglang.processes.scheduler.config import SchedulerConfig
from sglang.processes.scheduler.decoding import NewTokenRatio, RunningSet
from sglang.processes.scheduler.memory import KVMemory
from sglang.processes.scheduler.request import Request
from sglang.processes.scheduler.waiting import WaitingQueue

SHARED_PREFIX = 32
"""A request waits for the one ahead of it when it can reuse at least this many of its tokens afterwards."""

MAX_DEFERRALS = 4
"""Passes a request may wait for that reason."""

UNLIMITED = 1 << 30

SMALLEST_SHARE = 32
"""Prompt tokens a step computes at least beside running requests: fewer would leave the kernels half idle."""

CATCH_UP = 512
"""The same in a rush: one full piece of the kernels."""

RUSH = 3
"""It is one while so many times as many requests wait as run. (Each step of it is a long gap for those that run: few of
them must see few.)"""


@dataclass(slots=True)
class Piece:
    """Positions ``start … end-1`` of one request, computed in this pass."""

    request: Request
    start: int
    end: int
    is_last: bool
    """Whether nothing is left to compute after it, so that a token is sampled."""


class _Pass:
    """What one prefill pass may still take."""

    def __init__(self, config: SchedulerConfig, running: int, waiting: int, reserved: float) -> None:
        self.tokens = config.max_prefill_tokens
        self.chunk = config.chunked_prefill_size or UNLIMITED
        if config.enable_mixed_chunk and config.chunked_prefill_size is not None:
            self.chunk -= running
        if config.prompt_share is not None and running:
            # In a rush most of a step's cost would be the wait of those that don't run yet: let them catch up.
            calm = max(SMALLEST_SHARE, int(running * config.prompt_share))
            share = CATCH_UP if waiting > RUSH * running else calm
            self.chunk = min(self.chunk, share)
        self.requests = min(config.max_running_requests - running, config.prefill_max_requests or UNLIMITED)
        self.reserved = reserved  # memory that running and admitted requests are expected to take later
        self.pieces: list[Piece] = []
        self.prefixes: set[tuple[object, int, bytes]] = set()  # what is being computed: see Admission._shares_prefix

    def add(self, piece: Piece) -> None:
        self.pieces.append(piece)
        self.tokens -= piece.end - piece.start
        self.chunk -= piece.end - piece.start
        self.requests -= 1


class Admission:
    """Plans prefill passes. At most one request is chunked at a time; it goes on before anybody else is admitted."""

    def __init__(
        self,
        config: SchedulerConfig,
        memory: KVMemory,
        waiting: WaitingQueue,
        running: RunningSet,
        ratio: NewTokenRatio,
        retract: Callable[[list[Request]], None],
    ) -> None:
        self._config = config
        self._memory = memory
        self._waiting = waiting
        self._running = running
        self._ratio = ratio
        self._retract = retract
        self.chunked: Request | None = None
        """The request whose prompt is partly computed."""

    def plan(self, processed_tokens: int) -> list[Piece]:
        """The next pass, memory included; empty when there is nothing to prefill or no room for it."""
        if self.chunked is None and not len(self._waiting):
            return []
        this = _Pass(self._config, len(self._running), len(self._waiting), self._ratio.reserve(self._running.requests))
        if self.chunked is not None and not self._continue(self.chunked, this):
            return []
        admitted: list[Request] = []
        if self.chunked is None:
            for request in list(self._waiting.ordered(processed_tokens)) if self._may_admit(this) else ():
                verdict = self._admit(request, this)
                if verdict is None:
                    break
                if verdict:
                    admitted.append(request)
                if self.chunked is not None or not self._may_admit(this):
                    break
        self._waiting.serve(admitted)
        return this.pieces

    def _may_admit(self, this: _Pass) -> bool:
        if this.pieces and (this.tokens <= 0 or this.chunk <= 0):
            return False
        if this.requests > 0:
            return True
        preempt = self._config.enable_priority_scheduling and self._config.enable_priority_preemption
        return preempt and not this.pieces

    # -------------------------------------------------------------- one request

    def _continue(self, request: Request, this: _Pass) -> bool:
        """Next chunk of the chunked request. False when memory is too short for now."""
        size = self._chunk_size(request.total_len - request.kv_len, this)
        end = request.kv_len + size
        if not self._memory.extend(request, end):
            return False
        self._note_prefix(request, this)
        this.reserved += self._planned_end(request) - request.capacity
        this.add(Piece(request, request.kv_len, end, is_last=end == request.total_len))
        if end == request.total_len:
            self.chunked = None
        return True

    def _admit(self, request: Request, this: _Pass) -> bool | None:
        """True: admitted. False: passed over. None: no room, the pass is over."""
        slots = self._memory.reuse(request)
        if self._shares_prefix(request, this):
            request.deferrals += 1
            self._memory.forgo(request)
            return False
        need = self._planned_end(request) - request.tree_len
        size = self._chunk_size(request.total_len - request.tree_len, this)
        too_long = this.pieces and (size > this.tokens or size == 0)
        if too_long or not (self._fits(need, this) or self._preempt(request, need, this)):
            self._memory.forgo(request)
            return None
        self._memory.open(request, slots)
        if request.cached_tokens is None:
            request.cached_tokens = len(slots)
        end = request.kv_len + size
        if not self._memory.extend(request, end):
            raise RuntimeError(f"admission of {request.rid} promised memory that isn't there")
        self._note_prefix(request, this)
        this.reserved += self._planned_end(request) - request.capacity
        this.add(Piece(request, request.kv_len, end, is_last=end == request.total_len))
        if end < request.total_len:
            self.chunked = request
        return True

    def _planned_end(self, request: Request) -> int:
        """Slots to plan for: the whole prompt and the (bounded) token budget, in whole pages."""
        remaining = max(request.max_new_tokens - len(request.output_ids) - 1, 0)
        end = request.total_len + min(remaining, self._config.max_new_tokens_estimate)
        return self._memory.pages_for(end) * self._config.page_size

    def _chunk_size(self, remaining: int, this: _Pass) -> int:
        """Tokens to compute now: all, or whole pages up to the chunk; 0 when the chunk of this pass is used up."""
        if remaining <= this.chunk:
            return remaining
        page = self._config.page_size
        size = max(this.chunk - this.chunk % page, 0)
        return size if size or this.pieces else min(page, remaining)

    def _fits(self, need: int, this: _Pass) -> bool:
        return this.requests > 0 and need <= self._memory.available - this.reserved

    # -------------------------------------------------------------- priorities

    def _preempt(self, request: Request, need: int, this: _Pass) -> bool:
        """Send running requests of much lower priority back to the queue if that makes room."""
        config = self._config
        if not (config.enable_priority_scheduling and config.enable_priority_preemption) or this.pieces:
            return False
        victims = [r for r in self._running.requests if request.priority - r.priority > config.preemption_threshold]
        victims.sort(key=lambda r: (r.priority, -r.seq))
        self._running.sync(self._memory)
        missing = need - (self._memory.available - this.reserved)
        chosen: list[Request] = []
        for victim in victims:
            if chosen and missing <= 0:
                break
            chosen.append(victim)
            missing -= victim.capacity + self._ratio.reserve([victim])
        if not chosen or missing > 0:
            return False
        self._retract(chosen)
        this.requests += len(chosen)
        this.reserved = self._ratio.reserve(self._running.requests)
        return self._fits(need, this)

    # -------------------------------------------------------------- prefix sharing inside a pass

    def _shares_prefix(self, request: Request, this: _Pass) -> bool:
        """Whether waiting for this pass would let the request reuse a good part of what the pass computes.

        Two requests whose cached prefix ends at the same entry share it all; so comparing what follows it suffices.
        """
        if not this.prefixes or request.deferrals >= MAX_DEFERRALS:
            return False
        if request.tree_len + self._shared_len > request.reuse_limit:
            return False
        return self._prefix_key(request) in this.prefixes

    def _note_prefix(self, request: Request, this: _Pass) -> None:
        if self._memory.sharing and request.tree_len + self._shared_len <= request.total_len:
            this.prefixes.add(self._prefix_key(request))

    @property
    def _shared_len(self) -> int:
        return max(SHARED_PREFIX, self._config.page_size)

    def _prefix_key(self, request: Request) -> tuple[object, int, bytes]:
        start = request.tree_len
        return request.namespace, id(request.node), request.tokens(start + self._shared_len)[start:].tobytes()


def prefill_batch(pieces: list[Piece], memory: KVMemory) -> ForwardBatch:
    """The rows of a prefill pass; requests whose prompt ends here get a sample row."""
    starts = np.array([piece.start for piece in pieces], np.int64)
    ends = np.array([piece.end for piece in pieces], np.int64)
    rows = np.array([piece.request.row for piece in pieces], np.int64)
    batch = ForwardBatch(
        input_ids=np.concatenate([piece.request.tokens(piece.end)[piece.start :] for piece in pieces]),
        positions=np.concatenate([np.arange(piece.start, piece.end) for piece in pieces]),
        out_slots=np.concatenate(
            [memory.table[piece.request.row, piece.start : piece.end] for piece in pieces], dtype=np.int64
        ),
        query_lens=ends - starts,
        seq_lens=ends,
        table_rows=rows,
        slot_table=memory.table,
    )
    for row, piece in enumerate(pieces):
        request = piece.request
        if piece.is_last and request.needs_sample:
            request.sample.row = row
            request.sample.position = len(request.output_ids)
            batch.sample.append(request.sample)
        scored = scored_targets(piece)
        if scored:
            spec = request.spec
            offset = request.next_scored - 1 - piece.start
            batch.prompt_logprobs.append(
                PromptLogprobRow(row, offset, scored, spec.top_logprobs_num, spec.token_ids_logprob)
            )
    return batch


def scored_targets(piece: Piece) -> list[int]:
    """Prompt tokens whose logprob this piece yields: each is scored by the position before it."""
    request = piece.request
    last = min(piece.end, request.prompt_len - 1)
    targets: list[int] = request.prompt[request.next_scored : last + 1].tolist()
    return targets


def mix(batch: ForwardBatch, decode: ForwardBatch) -> None:
    """Append decode rows to a prefill batch."""
    first = len(batch.query_lens)
    for name in ("input_ids", "positions", "out_slots", "query_lens", "seq_lens", "table_rows"):
        setattr(batch, name, np.concatenate((getattr(batch, name), getattr(decode, name))))
    for sample in decode.sample:
        sample.row += first
    batch.sample.extend(decode.sample)
