"""Log-probabilities of a chosen token, of the most probable ones, and of ids that a caller asked for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sglang.sampling.adjust import repair
from sglang.sampling.candidates import FloatRow, rank
from sglang.sampling.rows import PromptLogprobRow, TokenLogprobs

LOWEST = float(np.finfo(np.float32).min)
CHUNK_BYTES = 32 << 20
"""Most memory that the logits of prompt tokens may take at a time."""


def describe(
    shifted: FloatRow, weights: FloatRow, token: int, top_count: int, ids: Sequence[int] | None
) -> TokenLogprobs:
    """Logprobs of one position; ``weights`` = exp(``shifted``) (see :mod:`sglang.sampling.candidates`).

    Top values fall; equal ones are in order of their ids. A token that was made impossible has the lowest float32:
    JSON has no infinity.
    """
    log_total = math.log(weights.sum())
    result = TokenLogprobs(logprob=float(shifted[token]) - log_total)
    if top_count > 0:
        best = rank(shifted, weights, top_count)[:top_count]
        result.top_idx = best.tolist()
        result.top_val = finite(shifted[best].astype(np.float64) - log_total)
    if ids is not None:
        result.ids_val = finite(shifted[list(ids)].astype(np.float64) - log_total)
    return result


def finite(values: npt.NDArray[np.float64]) -> list[float]:
    """Logprobs as numbers that JSON can hold."""
    found: list[float] = np.maximum(values, LOWEST).tolist()
    return found


def score_prompt(
    project: Callable[[Any], npt.NDArray[np.float32]], hidden: Any, request: PromptLogprobRow, vocab_size: int
) -> list[TokenLogprobs]:
    """Logprobs of the prompt tokens ``request.targets``: plain log-softmax, no temperature.

    ``hidden`` [len(targets), hidden_size], anything that can be sliced, holds the final states of the tokens before
    them; ``project`` turns such rows into logits [rows, vocab_size] that it hands over. It is called with a bounded
    number of rows at a time, so that a long prompt does not need memory for all its logits. Each position is computed
    alone: the answer does not depend on where chunks begin.
    """
    step = max(1, CHUNK_BYTES // (4 * vocab_size))
    weights = np.empty(vocab_size, np.float32)
    scores: list[TokenLogprobs] = []
    with np.errstate(all="ignore"):
        for start in range(0, len(request.targets), step):
            targets = request.targets[start : start + step]
            for logits, target in zip(project(hidden[start : start + len(targets)]), targets, strict=True):
                repair(logits)
                np.subtract(logits, logits.max(), out=logits)
                np.exp(logits, out=weights)
                scores.append(describe(logits, weights, target, request.top_logprobs_num, request.token_ids_logprob))
    return scores
