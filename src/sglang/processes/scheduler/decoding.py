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
        self._counts = np.ones(
            size, np.int64
        )  # tokens to compute: the newest, and those before it that a grammar forced
        self._long = False
        """Whether a request may have more than one token to compute."""

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
        self.requests.append(request)
        self.samples.append(request.sample)
        self._counts[index] = 1
        self.renew(index)

    def advance(self, tokens: list[int]) -> None:
        """Every request got one more token."""
        size = len(self.requests)
        self._lens[:size] += self._counts[:size]
        self._last[:size] = tokens
        if self._long:
            self._counts[:size] = 1
            self._long = False

    def renew(self, index: int) -> None:
        """Look again at the newest tokens of a request, as it may have got more than one."""
        request = self.requests[index]
        self._last[index] = request.output_ids[-1]
        if request.grammar is not None:
            count = request.total_len - int(self._lens[index])
            self._counts[index] = count
            self._long = self._long or count > 1

    def drop(self, gone: set[Request], memory: KVMemory) -> None:
        """Remove requests, keep the order of the others."""
        self.sync(memory)
        keep = [i for i, request in enumerate(self.requests) if request not in gone]
        for array in (self._rows, self._lens, self._last, self._counts):
            array[: len(keep)] = array[keep]
        self.requests = [self.requests[i] for i in keep]
        self.samples = [request.sample for request in self.requests]

    def sync(self, memory: KVMemory) -> None:
        """Write the computed lengths back to the requests (the hot path keeps them in the array only)."""
        for request, length in zip(self.requests, self.lens.tolist(), strict=True):
            memory.settle_length(request, length)

    def batch(self, memory: KVMemory) -> ForwardBatch | None:
        """The next decode step, memory included; None when memory is too short."""
        if self._long:
            return self._long_batch(memory)
        size = len(self.requests)
        rows, lens = self._rows[:size], self._lens[:size]
        out_slots = memory.extend_by_one(rows, lens)
        if out_slots is None:
            return None
        return self._batch(memory, self._last[:size].copy(), lens.copy(), out_slots)

    def pages_needed(self, memory: KVMemory) -> int:
        """Pages that :meth:`batch` will take."""
        if not self._long:
            return memory.pages_needed(self.lens)
        return memory.pages_between(self.lens, self.lens + self._counts[: len(self)])

    def _long_batch(self, memory: KVMemory) -> ForwardBatch | None:
        """A step in which some requests have several tokens to compute."""
        size = len(self.requests)
        rows, lens, ends = self._rows[:size], self._lens[:size], self._lens[:size] + self._counts[:size]
        out_slots = memory.extend_many(rows, lens, ends)
        if out_slots is None:
            return None
        tokens = [
            token
            for request, count in zip(self.requests, self._counts.tolist(), strict=False)
            for token in request.output_ids[-count:]
        ]
        positions = [np.arange(start, end) for start, end in zip(lens.tolist(), ends.tolist(), strict=True)]
        return self._batch(memory, np.array(tokens, np.int64), np.concatenate(positions), out_slots)

    def _batch(self, memory: KVMemory, tokens: IntArray, positions: IntArray, out_slots: IntArray) -> ForwardBatch:
        size = len(self.requests)
        counts = self._counts[:size]
        for index, sample in enumerate(self.samples):
            sample.row = index
            sample.position = len(sample.output_ids)
        return ForwardBatch(
            input_ids=tokens,
            positions=positions,
            out_slots=out_slots,
            query_lens=counts.copy(),
            seq_lens=self._lens[:size] + counts,
            table_rows=self._rows[:size].copy(),
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
