"""Choose one token of one row: filter by top_k, top_p and min_p, then draw by inverse CDF.

``shifted`` and ``weights`` are the two views of a row that :mod:`sglang.sampling.candidates` describes.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sglang.ipc.sampling_params import SamplingParams
from sglang.sampling.candidates import FloatRow, rank

Sums = npt.NDArray[np.float64]

BLOCK = 256


def draw(shifted: FloatRow, weights: FloatRow, params: SamplingParams, u: float) -> int:
    """Token at the quantile ``u`` in (0, 1) of the filtered distribution.

    A token is kept if it is among the ``top_k`` first, if the probability of all before it is at most ``top_p``, and
    if it has at least ``min_p`` of the largest probability. "First" is by falling probability, equals by rising id;
    all three look at the unfiltered distribution.
    """
    if params.top_k >= weights.size and params.top_p >= 1.0 and params.min_p <= 0.0:
        return _draw_unfiltered(weights, u)
    mass = params.top_p * float(weights.sum(dtype=np.float64)) if params.top_p < 1.0 else math.inf
    ids = rank(shifted, weights, params.top_k, mass, params.min_p)
    ranked = weights[ids].astype(np.float64)
    summed = np.cumsum(ranked)
    kept = min(
        params.top_k,
        1 + int(np.searchsorted(summed[:-1], mass, side="right")),
        int(np.count_nonzero(ranked >= params.min_p)),
    )
    summed = summed[:kept]
    return int(ids[_first_above(summed, u * float(summed[-1]))])


def _draw_unfiltered(weights: FloatRow, u: float) -> int:
    """Draw in the order of ids: sums of blocks first, so that only one block is added up token by token."""
    whole = weights.size - weights.size % BLOCK
    blocks = weights[:whole].reshape(-1, BLOCK).sum(axis=1).astype(np.float64)
    summed = np.cumsum(np.append(blocks, weights[whole:].sum(dtype=np.float64)))
    target = u * float(summed[-1])
    block = _first_above(summed, target)
    start = block * BLOCK
    inside = np.cumsum(weights[start : start + BLOCK], dtype=np.float64)
    return start + _first_above(inside, target - (float(summed[block - 1]) if block else 0.0))


def _first_above(summed: Sums, target: float) -> int:
    """First index whose cumulative sum exceeds the target; never one that adds nothing, not even where rounding has
    put the target at or past the end."""
    index = int(np.searchsorted(summed, target, side="right"))
    if index == summed.size:
        index = int(np.searchsorted(summed, summed[-1], side="left"))
    return index
