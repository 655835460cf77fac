"""How far one distribution is from the reference: perplexity, Kullback-Leibler divergence, agreement."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

ROWS = 32
"""Positions worked on at a time, in double precision."""


@dataclass(frozen=True)
class Scores:
    """A number for each scored position; logarithms are natural."""

    nll: Doubles
    """Minus the logarithm of the probability of the token that came next …"""
    reference_nll: Doubles
    """… and that of the reference."""
    kl: Doubles
    """Divergence from the reference's distribution over the whole vocabulary, in nats."""
    same_top: npt.NDArray[np.bool_]
    """Whether both find the same token likeliest."""

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def summary(self) -> dict[str, Any]:
        """Means with their standard errors."""
        change = self.nll - self.reference_nll
        return {
            "tokens": len(self.nll),
            "perplexity": math.exp(self.nll.mean()),
            "reference_perplexity": math.exp(self.reference_nll.mean()),
            "perplexity_change": math.expm1(change.mean()),
            "perplexity_change_error": standard_error(change),
            "kl_mean": float(self.kl.mean()),
            "kl_mean_error": standard_error(self.kl),
            "kl_median": float(np.median(self.kl)),
            "kl_p99": float(np.quantile(self.kl, 0.99)),
            "kl_max": float(self.kl.max()),
            "same_top": float(self.same_top.mean()),
        }


def standard_error(values: Doubles) -> float:
    """Of the mean, as if positions were independent."""
    return float(values.std() / math.sqrt(len(values)))


def join(parts: Sequence[Scores]) -> Scores:
    return Scores(**{name: np.concatenate([part.arrays()[name] for part in parts]) for name in parts[0].arrays()})


def compare(reference: Iterable[Floats], logits: Iterable[Floats], targets: IntArray) -> Scores:
    """Chunks of logits ``[n, vocab]`` of both, and the tokens that really came next.

    Rows past the last target and padding ids past the reference's vocabulary are left out.
    """
    parts, begin = [], 0
    for expected, found in zip(reference, logits, strict=True):
        scored = min(len(expected), len(targets) - begin)
        for row in range(0, scored, ROWS):
            rows = slice(row, min(row + ROWS, scored))
            parts.append(_compare_rows(expected[rows], found[rows], targets[begin:][rows]))
        begin += len(expected)
    return join(parts)


def _compare_rows(reference: Floats, logits: Floats, targets: IntArray) -> Scores:
    p = _log_softmax(reference)
    q = _log_softmax(logits[:, : p.shape[1]])
    ids = torch.from_numpy(targets)[:, None]
    return Scores(
        nll=-q.gather(1, ids)[:, 0].numpy(),
        reference_nll=-p.gather(1, ids)[:, 0].numpy(),
        kl=(p.exp() * (p - q)).sum(1).numpy(),
        same_top=(p.argmax(1) == q.argmax(1)).numpy(),
    )


def _log_softmax(logits: Floats) -> torch.Tensor:
    """In double precision; the copy is what torch wants of arrays that it may not write to."""
    return torch.from_numpy(logits.astype(np.float64)).log_softmax(-1)
