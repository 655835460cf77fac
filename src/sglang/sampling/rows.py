"""What the sampler is asked and what it answers, as plain records: the scheduler builds them, so no tensors here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sglang.ipc.sampling_params import SamplingParams


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
    mask: npt.NDArray[np.int32] | None = None
    """[vocab/32] bits of the tokens that a grammar allows, bit b of word w for token 32·w + b; None: all. It already
    leaves out ``stop_ids`` where ``min_new_tokens`` does, unless nothing else may follow."""


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
class TokenLogprobs:
    """Logprobs at one position."""

    logprob: float
    top_val: list[float] | None = None  # descending
    top_idx: list[int] | None = None
    ids_val: list[float] | None = None  # in the order asked for
