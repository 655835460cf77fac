"""An executor without a model, for tests and benchmarks of everything above it.

Its "KV cache" holds one 64-bit fingerprint a slot: the running sum of a hash of (token, position) along the context.
A sampled token is a hash of the fingerprints found through the slot table, so whoever hands out wrong slots, reuses
one too early or forgets a token gets other tokens than :func:`next_token` says. Misuse that needs no luck to see
(slots out of range, written twice, read before written, not in the table) raises ValueError at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sglang.executor.batch import ForwardBatch, IntArray, PromptLogprobRow, SampleRow, StepResult, TokenLogprobs
from sglang.executor.memory_plan import MemoryPlan
from sglang.executor.start_report import StartReport
from sglang.sampling.uniform import GOLDEN_GAMMA, random_bits

HashArray = npt.NDArray[np.uint64]

GAMMA = np.uint64(GOLDEN_GAMMA)


def _mix(values: HashArray) -> HashArray:
    """SplitMix64's finaliser on arrays; unsigned arithmetic wraps as it should."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _token_hashes(tokens: IntArray, positions: IntArray) -> HashArray:
    return _mix(_mix(tokens.astype(np.uint64) + GAMMA) + positions.astype(np.uint64) * GAMMA)


def _fold(fingerprints: HashArray) -> int:
    """One hash of a whole context: fingerprints of positions 0, 1, …"""
    places = np.arange(1, fingerprints.size + 1, dtype=np.uint64) * GAMMA
    return int(_mix(_mix(fingerprints ^ places).sum(dtype=np.uint64, keepdims=True))[0])


def _fold_of_tokens(tokens: Sequence[int]) -> int:
    ids = np.asarray(tokens, dtype=np.int64)
    return _fold(np.cumsum(_token_hashes(ids, np.arange(ids.size)), dtype=np.uint64))


def _choose(context: int, row: SampleRow, vocab_size: int) -> int:
    key = context if row.params.is_greedy else context ^ random_bits(row.seed, row.position)
    token = key % vocab_size
    if row.position < row.params.min_new_tokens:
        while token in row.stop_ids:
            token = (token + 1) % vocab_size
    if row.mask is not None:
        allowed = np.flatnonzero(np.unpackbits(row.mask.view(np.uint8), bitorder="little")[:vocab_size])
        token = int(allowed[key % allowed.size])
    return token


def _logprobs(context: int, token: int, top: int, ids: list[int] | None, vocab_size: int) -> TokenLogprobs:
    """Made-up logprobs: a function of (context, token), never positive, top values falling."""

    def value(item: int) -> float:
        return -float(random_bits(context, item) % 10_000) / 1000

    best = sorted(range(vocab_size), key=lambda item: (-value(item), item))[:top] if top else []
    return TokenLogprobs(
        logprob=value(token),
        top_val=[value(item) for item in best] if top else None,
        top_idx=best if top else None,
        ids_val=None if ids is None else [value(item) for item in ids],
    )


def next_token(context: Sequence[int], row: SampleRow, vocab_size: int) -> int:
    """The token that a right schedule samples for ``row`` after these tokens (prompt and output so far)."""
    return _choose(_fold_of_tokens(context), row, vocab_size)


def next_logprobs(
    context: Sequence[int], token: int, vocab_size: int, top: int, ids: list[int] | None
) -> TokenLogprobs:
    """The logprobs that a right schedule reports for ``token`` after these tokens."""
    return _logprobs(_fold_of_tokens(context), token, top, ids, vocab_size)


class FakeExecutor:
    """Implements :class:`sglang.executor.batch.Executor`.

    ``deep`` makes every sampled token depend on every slot of its context (time grows with the context); without it
    only the last slot is read, which is enough for benchmarks of the scheduler.
    """

    def __init__(self, num_slots: int, vocab_size: int = 1000, *, deep: bool = True) -> None:
        self.num_slots = num_slots
        self.report = StartReport("fake", 1, MemoryPlan(num_slots, "as asked"), 0)
        self.vocab_size = vocab_size
        self.deep = deep
        self.steps = 0
        self._fingerprints = np.zeros(num_slots, np.uint64)
        self._written = np.zeros(num_slots, np.bool_)

    def forget(self, slots: Sequence[int] | IntArray) -> None:
        """Mark freed slots, so that reading one before it is written again raises."""
        self._written[np.asarray(slots, dtype=np.int64)] = False

    def run(self, batch: ForwardBatch) -> StepResult:
        self.steps += 1
        ends = np.cumsum(batch.query_lens)
        starts = ends - batch.query_lens
        self._check(batch, starts, ends)
        self._write(batch, starts)
        contexts = self._contexts(batch)
        tokens = [
            _choose(context, sample, self.vocab_size) for context, sample in zip(contexts, batch.sample, strict=True)
        ]
        logprobs = None
        if any(sample.return_logprob for sample in batch.sample):
            logprobs = [
                _logprobs(context, token, sample.top_logprobs_num, sample.token_ids_logprob, self.vocab_size)
                if sample.return_logprob
                else None
                for context, token, sample in zip(contexts, tokens, batch.sample, strict=True)
            ]
        return StepResult(
            tokens=tokens,
            logprobs=logprobs,
            prompt_logprobs=[self._score(batch, request) for request in batch.prompt_logprobs],
        )

    def _check(self, batch: ForwardBatch, starts: IntArray, ends: IntArray) -> None:
        slots = batch.out_slots
        if not len(batch.input_ids) == len(batch.positions) == len(slots) == (int(ends[-1]) if ends.size else 0):
            raise ValueError(f"query_lens add up to {ends[-1:]}, but there are {len(batch.input_ids)} tokens")
        if slots.size and not 0 <= int(slots.min()) <= int(slots.max()) < self.num_slots:
            raise ValueError(f"out_slots must be in [0, {self.num_slots}), got {slots.min()} … {slots.max()}")
        if np.unique(slots).size != slots.size:
            raise ValueError("a slot is written twice in one step")
        if (batch.query_lens < 1).any():
            raise ValueError(f"every row needs at least one new token, got query_lens {batch.query_lens.tolist()}")
        row_of = np.repeat(np.arange(len(batch.query_lens)), batch.query_lens)
        places = np.arange(len(slots)) - starts[row_of] + (batch.seq_lens - batch.query_lens)[row_of]
        if (batch.positions != places).any():
            raise ValueError(f"positions {batch.positions.tolist()} do not end their rows, expected {places.tolist()}")
        if (batch.slot_table[batch.table_rows[row_of], places] != slots).any():
            raise ValueError("out_slots differ from the slot table")

    def _write(self, batch: ForwardBatch, starts: IntArray) -> None:
        """Fingerprint of a new token = fingerprint of the position before it + hash of (token, position)."""
        hashes = _token_hashes(batch.input_ids, batch.positions)
        summed = np.cumsum(hashes, dtype=np.uint64)
        cached = batch.seq_lens - batch.query_lens
        slots_before = batch.slot_table[batch.table_rows, np.maximum(cached - 1, 0)]
        if not self._written[slots_before[cached > 0]].all():
            raise ValueError("a row continues from a slot that was never written")
        before = np.where(cached > 0, self._fingerprints[slots_before], np.uint64(0))
        base = before - (summed[starts] - hashes[starts])
        self._fingerprints[batch.out_slots] = summed + np.repeat(base, batch.query_lens)
        self._written[batch.out_slots] = True

    def _contexts(self, batch: ForwardBatch) -> list[int]:
        """A hash of each sampled row's context."""
        if self.deep:
            return [self._context(batch, sample.row, int(batch.seq_lens[sample.row])) for sample in batch.sample]
        rows = np.fromiter((sample.row for sample in batch.sample), np.int64, len(batch.sample))
        last = batch.slot_table[batch.table_rows[rows], batch.seq_lens[rows] - 1]
        hashes: list[int] = _mix(self._fingerprints[last]).tolist()
        return hashes

    def _context(self, batch: ForwardBatch, row: int, length: int) -> int:
        """Hash of the first ``length`` positions of a row, as its slots hold them now."""
        slots = batch.slot_table[batch.table_rows[row], :length]
        if not self._written[slots].all():
            raise ValueError(f"row {row} reads a slot that was never written")
        return _fold(self._fingerprints[slots])

    def _score(self, batch: ForwardBatch, request: PromptLogprobRow) -> list[TokenLogprobs]:
        first = int(batch.seq_lens[request.row] - batch.query_lens[request.row]) + request.offset + 1
        return [
            _logprobs(
                self._context(batch, request.row, first + index),
                target,
                request.top_logprobs_num,
                request.token_ids_logprob,
                self.vocab_size,
            )
            for index, target in enumerate(request.targets)
        ]
