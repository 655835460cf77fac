"""Steps that change logits before a token is chosen, in the order in which :func:`adjust` applies them.

Each works in place on the float32 logits of one row, [vocab]. Penalties look at generated tokens only, never at the
prompt.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt

from sglang.sampling.rows import SampleRow

Logits = npt.NDArray[np.float32]

NEVER = np.float32(-np.inf)
REPAIRED = np.float32(-1e5)
"""Stands in for values that are no numbers: improbable, and still finite in a logprob."""


def adjust(logits: Logits, row: SampleRow) -> None:
    """Apply additive penalties and the min_new_tokens mask, then the repetition penalty, then logit_bias.

    A grammar's mask comes before; as it makes tokens impossible for good, the order does not matter.
    """
    params = row.params
    seen = counts = None
    if params.has_penalties and row.output_ids:
        seen, counts = np.unique(np.asarray(row.output_ids, dtype=np.int64), return_counts=True)
        penalize_additively(logits, seen, counts, params.frequency_penalty, params.presence_penalty)
    if row.position < params.min_new_tokens and row.mask is None:
        forbid(logits, row.stop_ids)
    if seen is not None and params.repetition_penalty != 1.0:
        penalize_repetition(logits, seen, params.repetition_penalty)
    if params.logit_bias:
        add_bias(logits, params.logit_bias)


def penalize_additively(
    logits: Logits, seen: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], frequency: float, presence: float
) -> None:
    """Lower each generated token by ``presence`` once and by ``frequency`` for every time it occurred."""
    if frequency != 0.0 or presence != 0.0:
        logits[seen] -= (frequency * counts + presence).astype(np.float32)


def forbid(logits: Logits, tokens: Collection[int]) -> None:
    """Make tokens impossible; ids outside the vocabulary are passed over."""
    logits[[token for token in tokens if 0 <= token < logits.size]] = NEVER


def penalize_repetition(logits: Logits, seen: npt.NDArray[np.int64], penalty: float) -> None:
    """Divide positive and multiply negative logits of generated tokens (Keskar et al., CTRL, arXiv:1909.05858)."""
    values = logits[seen]
    logits[seen] = np.where(values > 0, values / np.float32(penalty), values * np.float32(penalty))


def add_bias(logits: Logits, bias: Mapping[int, float]) -> None:
    count = len(bias)
    logits[np.fromiter(bias.keys(), np.int64, count)] += np.fromiter(bias.values(), np.float32, count)


def repair(logits: Logits) -> bool:
    """Replace a row that has NaN or infinity at its maximum, or nothing possible at all; True if it was replaced."""
    if math.isfinite(logits.max()):  # max() passes NaN on
        return False
    logits[~np.isfinite(logits)] = REPAIRED
    return True
