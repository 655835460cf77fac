"""The sampler on the kernels: rows are adjusted in numpy where they ask for it, then drawn all at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sglang.ops.native import NativeOps
from sglang.sampling.adjust import adjust
from sglang.sampling.logprobs import finite
from sglang.sampling.rows import SampleRow, TokenLogprobs
from sglang.sampling.sampler import HOTTEST, Sampler
from sglang.sampling.uniform import uniform

Floats = npt.NDArray[np.float32]
Sampled = tuple[list[int], list[bool] | None, list[TokenLogprobs | None] | None]

NO_LOGPROBS = -1


class NativeSampler:
    """Answers as :class:`sglang.sampling.sampler.Sampler` does; a draw may differ where two sums round apart."""

    def __init__(self, ops: NativeOps, vocab_size: int) -> None:
        self._pool = ops.pool
        self._kernels = ops.kernels
        self._kernel = ops.kernels.Sampler(vocab_size)
        self._reference = Sampler(vocab_size)

    def sample(self, logits: Floats, rows: list[SampleRow]) -> Sampled:
        """Tokens, which rows had broken logits (None: none had), and logprobs (None: nobody asked).

        ``logits`` [len(rows), vocab] are handed over: they are changed in place.
        """
        if not rows:
            return [], None, None
        with np.errstate(all="ignore"):
            self._mask(logits, rows)
            for values, row in zip(logits, rows, strict=True):
                adjust(values, row)
        found = self._draw(logits, rows)
        if found["broken"].any():
            # Rare, and its repair is spelled out in the reference; masking and adjusting twice would be wrong.
            return self._reference.sample_adjusted(logits, rows)
        logprobs = None
        if any(row.return_logprob for row in rows):
            logprobs = [
                _describe(found, index, logits[index], row) if row.return_logprob else None
                for index, row in enumerate(rows)
            ]
        return found["tokens"].tolist(), None, logprobs

    def _mask(self, logits: Floats, rows: list[SampleRow]) -> None:
        """What :func:`sglang.sampling.mask.apply_masks` does."""
        masked = [index for index, row in enumerate(rows) if row.mask is not None]
        if masked:
            masks = [rows[index].mask for index in masked]
            self._kernels.mask_logits(self._pool, logits, np.array(masked, np.int64), masks)

    def _draw(self, logits: Floats, rows: list[SampleRow]) -> dict[str, Any]:
        params = [row.params for row in rows]
        found: dict[str, Any] = self._kernel.sample(
            self._pool,
            logits,
            np.array([_temperature(row) for row in rows], np.float32),
            np.array([p.top_k for p in params], np.int64),
            np.array([p.top_p for p in params], np.float64),
            np.array([p.min_p for p in params], np.float64),
            np.array([uniform(row.seed, row.position) for row in rows], np.float64),
            np.array([row.top_logprobs_num if row.return_logprob else NO_LOGPROBS for row in rows], np.int64),
        )
        return found


def _temperature(row: SampleRow) -> float:
    return 0.0 if row.params.is_greedy else min(row.params.temperature, HOTTEST)


def _describe(found: dict[str, Any], index: int, logits: Floats, row: SampleRow) -> TokenLogprobs:
    result = TokenLogprobs(logprob=float(found["logprobs"][index]))
    if row.top_logprobs_num > 0:
        result.top_idx = found["top_ids"][index, : row.top_logprobs_num].tolist()
        result.top_val = finite(found["top_values"][index, : row.top_logprobs_num])
    if row.token_ids_logprob is not None:
        scaled = (logits[row.token_ids_logprob].astype(np.float64) - found["max"][index]) / (_temperature(row) or 1.0)
        result.ids_val = finite(scaled - found["log_total"][index])
    return result
