"""The executor on the native kernels: one recorded call a step, no torch in the process."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from sglang.executor.batch import ForwardBatch, IntArray, StepResult
from sglang.executor.native_sampler import NativeSampler
from sglang.executor.pieces import Piece, pieces
from sglang.executor.record import Recorder
from sglang.executor.start_report import StartReport
from sglang.models.base import CausalLM
from sglang.ops.native import NativeOps, NativeWeight
from sglang.sampling.logprobs import score_prompt
from sglang.sampling.rows import PromptLogprobRow, SampleRow
from sglang.sampling.sampler import takes_maximum

Floats = npt.NDArray[np.float32]
Masks = list[npt.NDArray[np.int32] | None]

PIECE_TOKENS = 512
"""Most tokens of one call: enough to read the weights rarely, few enough that the activations stay in the cache."""


class NativeExecutor:
    """Implements :class:`sglang.executor.batch.Executor`. Not thread-safe: one step at a time."""

    def __init__(self, model: CausalLM, ops: NativeOps, num_slots: int, kv_dtype: str, report: StartReport) -> None:
        recorder = Recorder(model, ops, num_slots, kv_dtype, PIECE_TOKENS)
        self.num_slots = num_slots
        self.vocab_size = model.config.vocab_size
        self.report = report
        self._program = recorder.program
        self._ops = ops
        self._logit_cap = model.head.logit_cap
        self._head_weight = cast(NativeWeight, model.head.weight)
        self._sampler = NativeSampler(ops, self.vocab_size)

    def run(self, batch: ForwardBatch) -> StepResult:
        """See :meth:`sglang.executor.batch.Executor.run`."""
        try:
            return self._run(batch, [takes_maximum(sample) for sample in batch.sample])
        except _BrokenLogits:
            # Computing the step again writes the same keys and values to the same slots.
            return self._run(batch, [False] * len(batch.sample))

    def _run(self, batch: ForwardBatch, plain: list[bool]) -> StepResult:
        """``plain`` samples take the kernel's argmax, of the tokens that their masks allow."""
        ends = np.cumsum(batch.query_lens)
        drawn = [index for index, easy in enumerate(plain) if not easy]
        greedy = [index for index, easy in enumerate(plain) if easy]
        rows = np.array([batch.sample[index].row for index in (*drawn, *greedy)], np.int64)
        wanted = sampled = ends[rows] - 1
        scored = [_scored_tokens(batch, ends, request) for request in batch.prompt_logprobs]
        if scored:
            wanted = np.concatenate([sampled, np.setdiff1d(np.concatenate(scored), sampled)])
        masks = _masks(batch.sample, drawn, greedy, len(wanted))
        outputs = self._compute(batch, wanted, len(drawn), masks, hidden=bool(scored))
        if not np.isfinite(outputs.best_values[len(drawn) : len(rows)]).all():
            raise _BrokenLogits
        result = self._sample(batch.sample, drawn, greedy, outputs)
        place = {token: index for index, token in enumerate(wanted.tolist())} if scored else {}
        for request, tokens in zip(batch.prompt_logprobs, scored, strict=True):
            states = outputs.hidden[[place[token] for token in tokens.tolist()]]
            result.prompt_logprobs.append(score_prompt(self._logits, states, request, self.vocab_size))
        return result

    def _sample(self, samples: list[SampleRow], drawn: list[int], greedy: list[int], outputs: Outputs) -> StepResult:
        """Put tokens drawn from logits and tokens found by the kernel back in the order of the samples."""
        tokens = [0] * len(samples)
        for index, token in zip(greedy, outputs.best_ids[len(drawn) : len(samples)].tolist(), strict=True):
            tokens[index] = token
        if not drawn:
            return StepResult(tokens)
        found, invalid, logprobs = self._sampler.sample(outputs.logits, [samples[index] for index in drawn])
        for index, token in zip(drawn, found, strict=True):
            tokens[index] = token
        result = StepResult(tokens)
        if invalid is not None:
            result.invalid = _spread(drawn, invalid, [False] * len(samples))
        if logprobs is not None:
            result.logprobs = _spread(drawn, logprobs, [None] * len(samples))
        return result

    def _compute(
        self, batch: ForwardBatch, wanted: IntArray, full: int, masks: Masks | None, *, hidden: bool
    ) -> Outputs:
        """Run the step; outputs for the tokens ``wanted``, with logits for the first ``full`` of them."""
        if len(batch.input_ids) <= PIECE_TOKENS:
            whole = next(pieces(batch, PIECE_TOKENS))
            return Outputs(**self._call(batch, whole, wanted, full, masks, hidden))
        outputs = Outputs.empty(len(wanted), full, self.vocab_size, self._head_weight.in_features if hidden else 0)
        for piece in pieces(batch, PIECE_TOKENS):
            at = np.flatnonzero((wanted >= piece.begin) & (wanted < piece.end))
            here = int(np.searchsorted(at, full))
            some = None if masks is None else [masks[index] for index in at.tolist()]
            outputs.put(at, here, self._call(batch, piece, wanted[at] - piece.begin, here, some, hidden))
        return outputs

    def _call(
        self, batch: ForwardBatch, piece: Piece, wanted: IntArray, full: int, masks: Masks | None, hidden: bool
    ) -> dict[str, Any]:
        tokens = slice(piece.begin, piece.end)
        found: dict[str, Any] = self._program.run(
            self._ops.pool,
            batch.input_ids[tokens],
            batch.positions[tokens],
            batch.out_slots[tokens],
            piece.query_lens,
            piece.seq_lens,
            piece.table_rows,
            batch.slot_table,
            wanted,
            full,
            0,
            hidden,
            masks,
        )
        return found

    def _logits(self, hidden: Floats) -> Floats:
        """``[n, hidden] -> [n, vocab]``, with the same matrix product as inside the program."""
        (head,) = self._head_weight.parts
        logits: Floats = self._ops.kernels.linear(self._ops.pool, head, np.ascontiguousarray(hidden), centered=True)
        cap = self._logit_cap
        return logits if cap is None else np.tanh(logits / np.float32(cap)) * np.float32(cap)


class _BrokenLogits(ArithmeticError):
    """A row that was to take the kernel's argmax has no finite maximum; its logits must be seen and repaired."""


class Outputs:
    """What a step gives for the tokens that were asked about, in their order."""

    __slots__ = ("best_ids", "best_values", "hidden", "logits")

    def __init__(self, logits: Floats, best_ids: IntArray, best_values: Floats, hidden: Floats, **_: Any) -> None:
        self.logits = logits  # [full, vocab]
        self.best_ids = best_ids  # [n]
        self.best_values = best_values  # [n]
        self.hidden = hidden  # [n, hidden] or empty

    @classmethod
    def empty(cls, count: int, full: int, vocab: int, width: int) -> Outputs:
        return cls(
            np.empty((full, vocab), np.float32),
            np.empty(count, np.int64),
            np.empty(count, np.float32),
            np.empty((count if width else 0, width), np.float32),
        )

    def put(self, at: IntArray, full: int, found: dict[str, Any]) -> None:
        """Fill in the outputs ``at``, of which the first ``full`` have logits."""
        self.logits[at[:full]] = found["logits"]
        self.best_ids[at] = found["best_ids"]
        self.best_values[at] = found["best_values"]
        if self.hidden.size:
            self.hidden[at] = found["hidden"]


def _masks(samples: list[SampleRow], drawn: list[int], greedy: list[int], outputs: int) -> Masks | None:
    """Of the outputs, samples first. Drawn ones are masked later, with their logits at hand."""
    if all(samples[index].mask is None for index in greedy):
        return None
    masks: Masks = [None] * outputs
    masks[len(drawn) : len(samples)] = [samples[index].mask for index in greedy]
    return masks


def _scored_tokens(batch: ForwardBatch, ends: IntArray, request: PromptLogprobRow) -> IntArray:
    """Tokens of the step whose states predict the request's targets."""
    first = int(ends[request.row] - batch.query_lens[request.row]) + request.offset
    return np.arange(first, first + len(request.targets))


def _spread(at: list[int], values: list[Any], onto: list[Any]) -> list[Any]:
    for index, value in zip(at, values, strict=True):
        onto[index] = value
    return onto
