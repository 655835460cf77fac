"""Grammar masks: tokens that may not come next get the logit -inf."""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

from sglang.sampling.rows import SampleRow

LogitRows = npt.NDArray[np.float32]

_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
_PENALTIES = np.where(_BITS, np.float32(0), np.float32(-np.inf))
"""[256, 8]: what a byte of a mask adds to eight logits."""


def apply_masks(logits: LogitRows, rows: list[SampleRow]) -> None:
    """Mask the rows that have a mask, all in one pass, in place; ``logits`` [len(rows), vocab].

    Adding 0 or -inf takes the same time for every mask, where choosing by bit would stumble over mixed ones. Tokens
    beyond the mask (padding of the vocabulary) are forbidden.
    """
    wanted = [index for index, row in enumerate(rows) if row.mask is not None]
    if not wanted:
        return
    masks = np.stack([mask for row in rows if (mask := row.mask) is not None])
    if sys.byteorder == "big":
        masks = masks.byteswap()
    width = min(logits.shape[1], 32 * masks.shape[1])
    penalties = _PENALTIES[masks.view(np.uint8)].reshape(len(wanted), -1)[:, :width]
    if len(wanted) == len(rows):
        logits[:, :width] += penalties
        logits[:, width:] = -np.inf
    else:
        logits[wanted, :width] += penalties
        logits[wanted, width:] = -np.inf
