"""From logits to tokens.

Order of work on a row: grammar mask, additive penalties and min_new_tokens mask, repetition penalty, logit_bias,
repair of broken values; then argmax for greedy rows, else temperature, softmax, top_k, top_p, min_p and the draw.

Every row is computed by itself, so its token and logprobs cannot depend on what else is in the batch; and its random
number is a function of (seed, position), so they cannot depend on when or where it ran.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sglang.sampling.adjust import adjust, repair
from sglang.sampling.draw import draw
from sglang.sampling.logprobs import describe
from sglang.sampling.mask import apply_masks
from sglang.sampling.rows import SampleRow, TokenLogprobs
from sglang.sampling.uniform import uniform

LogitRows = npt.NDArray[np.float32]

HOTTEST = 1e38
"""Larger temperatures change nothing, and would overflow float32."""


class Sampler:
    """Samples one token for each row of a step. Keeps scratch memory, so it serves one thread at a time."""

    def __init__(self, vocab_size: int) -> None:
        self._weights = np.empty(vocab_size, np.float32)

    def sample(
        self, logits: LogitRows, rows: list[SampleRow]
    ) -> tuple[list[int], list[bool] | None, list[TokenLogprobs | None] | None]:
        """Tokens, which rows had broken logits (None: none had), and logprobs (None: nobody asked).

        ``logits`` [len(rows), vocab] are handed over: they are changed in place.
        """
        if not rows:
            return [], None, None
        with np.errstate(all="ignore"):
            apply_masks(logits, rows)
            if all(takes_maximum(row) for row in rows):
                tokens = logits.argmax(axis=-1)
                # argmax stops at the first NaN, so the chosen values show whether any row is broken.
                if np.isfinite(logits[np.arange(len(rows)), tokens]).all():
                    return tokens.tolist(), None, None
            for values, row in zip(logits, rows, strict=True):
                adjust(values, row)
        return self.sample_adjusted(logits, rows)

    def sample_adjusted(
        self, logits: LogitRows, rows: list[SampleRow]
    ) -> tuple[list[int], list[bool] | None, list[TokenLogprobs | None] | None]:
        """:meth:`sample` from where masks, penalties and biases have been applied."""
        with np.errstate(all="ignore"):
            results = [self._sample_row(*pair) for pair in zip(logits, rows, strict=True)]
        invalid = [result[1] for result in results]
        logprobs = [result[2] for result in results]
        return (
            [result[0] for result in results],
            invalid if any(invalid) else None,
            logprobs if any(row.return_logprob for row in rows) else None,
        )

    def _sample_row(self, logits: LogitRows, row: SampleRow) -> tuple[int, bool, TokenLogprobs | None]:
        """One row: (token, logits were broken, logprobs if asked for)."""
        params = row.params
        invalid = repair(logits)
        best = int(logits.argmax())
        if invalid:
            best = min((token for token in row.stop_ids if 0 <= token < logits.size), default=best)
        greedy = invalid or params.is_greedy
        if greedy and not row.return_logprob:
            return best, invalid, None
        shifted = np.subtract(logits, logits.max(), out=logits)
        if not greedy and params.temperature != 1.0:
            shifted /= np.float32(min(params.temperature, HOTTEST))
        weights = np.exp(shifted, out=self._weights)
        token = best if greedy else draw(shifted, weights, params, uniform(row.seed, row.position))
        if not row.return_logprob:
            return token, invalid, None
        return token, invalid, describe(shifted, weights, token, row.top_logprobs_num, row.token_ids_logprob)


def takes_maximum(row: SampleRow) -> bool:
    """Whether the token is the argmax of the (masked) logits."""
    params = row.params
    return (
        params.is_greedy
        and not row.return_logprob
        and not params.logit_bias
        and not params.has_penalties
        and (row.position >= params.min_new_tokens or row.mask is not None)
    )
