"""What one step computes, and what comes back: plain numpy records between scheduler and executor.

No torch here: the scheduler is a pure state machine and is tested without it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sglang.ipc.sampling_params import SamplingParams

IntArray = npt.NDArray[np.int64]


@dataclass(slots=True)
class SampleRow:
    """One token to sample."""

    row: int
    """Index of the batch row; its last query token gives the logits."""
    params: SamplingParams
    seed: int
    position: int
    """Index of the token among the generated ones (0 = first); the random stream is keyed by (seed, position)."""
    output_ids: list[int]
    """Tokens generated so far (penalties, min_new_tokens). A live reference: read only."""
    stop_ids: frozenset[int]
    """EOS and stop ids, masked while ``position < params.min_new_tokens``."""
    return_logprob: bool = False
    top_logprobs_num: int = 0
    token_ids_logprob: list[int] | None = None


@dataclass(slots=True)
class PromptLogprobRow:
    """Prompt positions of one batch row that must be scored in this step."""

    row: int
    offset: int
    """First query token of the row (0-based in this step) whose next token is scored."""
    targets: list[int]
    """targets[i] is the prompt token that follows query token ``offset + i``."""
    top_logprobs_num: int = 0
    token_ids_logprob: list[int] | None = None


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
class TokenLogprobs:
    """Logprobs at one position."""

    logprob: float
    top_val: list[float] | None = None  # descending
    top_idx: list[int] | None = None
    ids_val: list[float] | None = None  # in the order asked for


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

    def run(self, batch: ForwardBatch) -> StepResult:
        """Compute one step. Writes KV of every new token before attention reads it."""
        ...
