"""What one step computes, and what comes back: plain numpy records between scheduler and executor.

No torch here: the scheduler is a pure state machine and is tested without it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sglang.executor.start_report import StartReport
from sglang.sampling.rows import PromptLogprobRow, SampleRow, TokenLogprobs

__all__ = ["Executor", "ForwardBatch", "IntArray", "PromptLogprobRow", "SampleRow", "StepResult", "TokenLogprobs"]

IntArray = npt.NDArray[np.int64]


@dataclass(slots=True)
class ForwardBatch:
    """Rows of one step; row r holds ``query_lens[r]`` new tokens of one request, rows lie end to end."""

    input_ids: IntArray  # [tokens]
    positions: IntArray  # [tokens] absolute positions
    out_slots: IntArray  # [tokens] KV slot each new token is written to
    query_lens: IntArray  # [rows] new tokens of the row (1 = decode)
    seq_lens: IntArray  # [rows] context length, the new tokens included
    table_rows: IntArray  # [rows] row in the slot table
    slot_table: npt.NDArray[np.int32]  # [max rows, max context]; slot_table[table_rows[r], p] = KV slot of position p
    sample: list[SampleRow] = field(default_factory=list)
    prompt_logprobs: list[PromptLogprobRow] = field(default_factory=list)


@dataclass(slots=True)
class StepResult:
    """What one step produced."""

    tokens: list[int]  # one per ForwardBatch.sample
    invalid: list[bool] | None = None  # per sample: logits held NaN and were repaired; None = none
    logprobs: list[TokenLogprobs | None] | None = None  # per sample; None = nobody asked
    prompt_logprobs: list[list[TokenLogprobs]] = field(default_factory=list)  # per ForwardBatch.prompt_logprobs


class Executor(Protocol):
    """Runs batches on a model. Owns weights and KV pool; knows nothing of requests or queues."""

    num_slots: int
    """KV slots that the scheduler may hand out: 0 … num_slots-1 (padding slots are the executor's own business)."""

    report: StartReport
    """How it was built."""

    def run(self, batch: ForwardBatch) -> StepResult:
        """Compute one step. Writes KV of every new token before attention reads it."""
        ...
