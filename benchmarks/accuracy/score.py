"""How far one distribution is from the reference: perplexity, Kullback-Leibler divergence, agreement."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

Floats = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

ROWS = 32
"""Positions worked on at a time, in double precision."""


@dataclass
class Score:
    """Per scored position; fed chunk by chunk."""

    nll: list[npt.NDArray[np.float64]] = field(default_factory=list)
    reference_nll: list[npt.NDArray[np.float64]] = field(default_factory=list)
    kl: list[npt.NDArray[np.float64]] = field(default_factory=list)
    same_top: list[npt.NDArray[np.bool_]] = field(default_factory=list)

    def add(self, reference: Floats, logits: Floats, targets: IntArray) -> None:
        """Logits ``[n, vocab]`` of both, and the n tokens that really came next. Padding ids past the reference's
        vocabulary are cut off."""
        for begin in range(0, len(targets), ROWS):
            rows = slice(begin, min(begin + ROWS, len(targets)))
            p = _log_softmax(reference[rows])
            q = _log_softmax(logits[rows, : p.shape[1]])
            next_ids = torch.from_numpy(targets[rows])[:, None]
            self.reference_nll.append(-p.gather(1, next_ids)[:, 0].numpy())
            self.nll.append(-q.gather(1, next_ids)[:, 0].numpy())
            self.same_top.append((p.argmax(1) == q.argmax(1)).numpy())
            self.kl.append((p.exp() * (p - q)).sum(1).numpy())

    def divergence(self) -> npt.NDArray[np.float64]:
        """KL divergence from the reference at every scored position, in nats."""
        return np.concatenate(self.kl)

    def summary(self) -> dict[str, Any]:
        """Means with their standard errors."""
        nll, reference, kl = np.concatenate(self.nll), np.concatenate(self.reference_nll), self.divergence()
        change = nll - reference
        return {
            "tokens": len(nll),
            "perplexity": math.exp(nll.mean()),
            "reference_perplexity": math.exp(reference.mean()),
            "perplexity_change": math.expm1(change.mean()),
            "perplexity_change_error": float(change.std() / math.sqrt(len(change))),
            "kl_mean": float(kl.mean()),
            "kl_mean_error": float(kl.std() / math.sqrt(len(kl))),
            "kl_median": float(np.median(kl)),
            "kl_p99": float(np.quantile(kl, 0.99)),
            "kl_max": float(kl.max()),
            "same_top": float(np.concatenate(self.same_top).mean()),
        }


def _log_softmax(logits: Floats) -> torch.Tensor:
    """In double precision; the copy is what torch wants of arrays that it may not write to."""
    return torch.from_numpy(logits.astype(np.float64)).log_softmax(-1)
