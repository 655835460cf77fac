"""The few tokens of a vocabulary that can matter, found without sorting all of it.

Two views of one row, both [vocab] float32: ``shifted`` = z - max z, the logits moved so that the largest is 0, and
``weights`` = exp(shifted), the softmax without its denominator, so that the largest is exactly 1.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

FloatRow = npt.NDArray[np.float32]
IdArray = npt.NDArray[np.int64]

CUTS = (-4.0, -7.0, -10.0, -13.0, -16.0, -22.0, -32.0)
"""Distances from the largest logit that are tried in turn."""
MASS_SLACK = 1.0 + 1e-6
"""Covers the rounding of a sum that adds in another order than its user does."""


def rank(shifted: FloatRow, weights: FloatRow, count: int, mass: float = math.inf, at_least: float = 0.0) -> IdArray:
    """Ids by falling logit, equals by rising id; the list may end early, but never before

    * the first ``count`` tokens are in it, or
    * the first tokens with weights that sum to more than ``mass`` are, or
    * all tokens with a weight of ``at_least`` are.

    Sorting a whole vocabulary takes milliseconds, and mostly the first few hundred tokens decide: so find a cut that
    is low enough for one of the three, and sort what lies above.
    """
    lowest = math.log(at_least) if at_least > 0.0 else -math.inf
    for cut in CUTS:
        ids = np.flatnonzero(shifted >= np.float32(cut))
        if ids.size >= count or cut < lowest or (mass < math.inf and _mass(weights, ids) > mass * MASS_SLACK):
            return _falling(shifted[ids], ids)
    return _falling(shifted, np.arange(shifted.size))


def _mass(weights: FloatRow, ids: IdArray) -> float:
    return float(weights[ids].sum(dtype=np.float64))


def _falling(shifted: FloatRow, ids: IdArray) -> IdArray:
    """``ids`` by falling ``shifted``, equals by rising id.

    Sorts one integer a token, distance from the maximum above and id below: several times as fast as a stable
    argsort. The bits of floats that are not negative, read as integers, have the order of the floats.
    """
    keys = np.abs(shifted).view(np.uint32).astype(np.uint64) << np.uint64(32) | ids.astype(np.uint64)
    keys.sort()
    return (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
