"""The running set: requests that decode, one token a step, and who gives way when memory runs out."""

from __future__ import annotations

import numpy as np

from sglang.executor.batch import ForwardBatch, SampleRow
from sglang.processes.scheduler.config import SchedulerConfig
from sglang.processes.scheduler.memory import IntArray, KVMemory
from sglang.processes.scheduler.request import Request


class RunningSet:
    """Decode state as parallel arrays that are edited in place, never rebuilt: the hot path of the scheduler."""

    def __init__(self, config: SchedulerConfig) -> None:
        size = config.max_running_requests
        self.requests: list[Request] = []
        self.samples: list[SampleRow] = []
        self._rows = np.zeros(size, np.int64)
        self._lens = np.zeros(size, np.int64)  # computed positions = position of the next query token
        self._last = np.zeros(size, np.int64)  # newest token: sampled, not yet computed
        self._ones = np.ones(size, np.int64)

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def rows(self) -> IntArray:
        return self._rows[: len(self.requests)]

    @property
    def lens(self) -> IntArray:
        return self._lens[: len(self.requests)]

    def add(self, request: Request) -> None:
        """A request whose prompt is computed and whose newest token is known."""
        index = len(self.requests)
        self._rows[index] = request.row
        self._lens[index] = request.kv_len
        self._last[index] = request.output_ids[-1]
        self.requests.append(request)
        self.samples.append(request.sample)

    def advance(self, tokens: list[int]) -> None:
        """Every request got one more token."""
        size = len(self.requests)
        self._lens[:size] += 1
        self._last[:size] = tokens

    def drop(self, gone: set[Request], memory: KVMemory) -> None:
        """Remove requests, keep the order of the others."""
        self.sync(memory)
        keep = [i for i, request in enumerate(self.requests) if request not in gone]
        for array in (self._rows, self._lens, self._last):
            array[: len(keep)] = array[keep]
        self.requests = [self.requests[i] for i in keep]
        self.samples = [request.sample for request in self.requests]

    def sync(self, memory: KVMemory) -> None:
        """Write the computed lengths back to the requests (the hot path keeps them in the array only)."""
        for request, length in zip(self.requests, self.lens.tolist(), strict=True):
            memory.settle_length(request, length)

    def batch(self, memory: KVMemory) -> ForwardBatch | None:
        """The next decode step, memory included; None when memory is too short."""
        size = len(self.requests)
        rows, lens = self._rows[:size], self._lens[:size]
        out_slots = memory.extend_by_one(rows, lens)
        if out_slots is None:
            return None
        for index, sample in enumerate(self.samples):
            sample.row = index
            sample.position = len(sample.output_ids)
        return ForwardBatch(
            input_ids=self._last[:size].copy(),
            positions=lens.copy(),
            out_slots=out_slots,
            query_lens=self._ones[:size],
            seq_lens=lens + 1,
            table_rows=rows.copy(),
            slot_table=memory.table,
            sample=self.samples,
        )


def retraction_order(requests: list[Request], policy: str) -> list[Request]:
    """Who gives way first: the least output (ties: the longer prompt); with policy 'priority' the lowest priority
    before that."""
    if policy == "priority":
        return sorted(requests, key=lambda r: (r.priority, len(r.output_ids), -r.prompt_len))
    return sorted(requests, key=lambda r: (len(r.output_ids), -r.prompt_len))


class NewTokenRatio:
    """Guess of the share of its token budget that a running request will really use.

    Starts high, decays while decoding goes well, and is raised to what was observed when memory ran out.
    """

    def __init__(self, config: SchedulerConfig) -> None:
        self._config = config
        self.value = config.init_new_token_ratio

    def decay(self) -> None:
        self.value = max(self.value - self._config.new_token_ratio_decay, self._config.min_new_token_ratio)

    def raise_after_retraction(self, kept: list[Request]) -> None:
        decoded = sum(len(request.output_ids) for request in kept)
        budget = sum(request.max_new_tokens for request in kept)
        self.value = min(1.0, (decoded + self._config.retract_decode_steps * len(kept)) / (budget + 1))

    def reset(self) -> None:
        self.value = self._config.init_new_token_ratio

    def reserve(self, requests: list[Request]) -> float:
        """Tokens that running requests are expected to take."""
        limit = self._config.max_new_tokens_estimate
        remaining = sum(min(request.max_new_tokens - len(request.output_ids), limit) for request in requests)
        return remaining * self.value
