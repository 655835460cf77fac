"""Grammar masks: tokens that may not come next get the logit -inf."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sglang.sampling.rows import SampleRow

LogitRows = npt.NDArray[np.float32]

NEVER = np.float32(-np.inf)
FEW = 6144
"""Up to so many tokens are picked one by one; where more must be both kept and dropped, all are passed over."""

_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
_PENALTIES = np.where(_BITS, np.float32(0), NEVER)
"""[256, 8]: what a byte of a mask adds to eight logits."""


def apply_masks(logits: LogitRows, rows: list[SampleRow]) -> None:
    """Mask the rows that have a mask, in place; ``logits`` [len(rows), vocab]. Tokens beyond a mask (padding of the
    vocabulary) are forbidden."""
    for values, row in zip(logits, rows, strict=True):
        if row.mask is not None:
            width = min(values.size, 32 * row.mask.size)
            _apply(values[:width], row.mask)
            values[width:] = NEVER


def _apply(values: npt.NDArray[np.float32], mask: npt.NDArray[np.int32]) -> None:
    """Mostly a grammar allows a few tokens, or all but a few: then only those are touched."""
    data = mask.astype("<i4", copy=False).view(np.uint8)
    bits = np.unpackbits(data, bitorder="little", count=values.size)
    allowed = int(np.count_nonzero(bits))
    if allowed <= FEW:
        ids = np.flatnonzero(bits.view(np.bool_))
        kept = values[ids]
        values.fill(NEVER)
        values[ids] = kept
    elif values.size - allowed <= FEW:
        values[np.flatnonzero(~bits.view(np.bool_))] = NEVER
    else:
        values += np.take(_PENALTIES, data, axis=0).reshape(-1)[: values.size]
