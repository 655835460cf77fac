"""Grammar masks on logits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sglang.ipc.sampling_params import SamplingParams
from sglang.sampling.mask import apply_masks
from sglang.sampling.rows import SampleRow
from sglang.sampling.sampler import Sampler, takes_maximum

VOCAB = 20_011


def mask_of(allowed: np.ndarray[Any, Any], words: int = (VOCAB + 31) // 32) -> np.ndarray[Any, Any]:
    bits = np.zeros(32 * words, np.uint8)
    bits[allowed] = 1
    return np.packbits(bits, bitorder="little").view(np.int32)


def row(mask: np.ndarray[Any, Any] | None, index: int = 0, **params: Any) -> SampleRow:
    return SampleRow(
        row=index,
        params=SamplingParams(**params),
        seed=3,
        position=0,
        output_ids=[],
        stop_ids=frozenset({7}),
        mask=mask,
    )


def logits_of(rows: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal((rows, VOCAB)).astype(np.float32)


@pytest.mark.parametrize("count", [1, 40, 6144, 6145, 10_000, VOCAB - 6145, VOCAB - 6144, VOCAB - 3, VOCAB])
def test_exactly_what_the_mask_allows_stays(count: int) -> None:
    allowed = np.random.default_rng(count).permutation(VOCAB)[:count]
    logits = logits_of(3)
    before = logits.copy()
    apply_masks(logits, [row(None), row(mask_of(allowed)), row(None)])
    assert (logits[[0, 2]] == before[[0, 2]]).all()
    assert (logits[1, allowed] == before[1, allowed]).all()
    assert np.isneginf(logits[1]).sum() == VOCAB - count


def test_tokens_beyond_the_mask_are_forbidden() -> None:
    logits = logits_of(1)
    apply_masks(logits, [row(mask_of(np.arange(64), words=2))])
    assert np.flatnonzero(np.isfinite(logits[0])).tolist() == list(range(64))


@pytest.mark.parametrize(
    "params", [{"top_k": 1}, {"temperature": 1.0}, {"temperature": 0.7, "top_p": 0.9, "min_p": 0.1}]
)
def test_only_allowed_tokens_are_drawn_whatever_else_is_in_the_batch(params: dict[str, Any]) -> None:
    allowed = np.array([5, 700, 19_999])
    sampler = Sampler(VOCAB)
    for seed in range(20):
        logits = logits_of(4, seed)
        rows = [row(mask_of(allowed) if index != 1 else None, **params) for index in range(4)]
        alone = sampler.sample(logits[2:3].copy(), rows[2:3])[0]
        together = sampler.sample(logits, rows)[0]
        assert together[2:3] == alone
        assert {together[index] for index in (0, 2, 3)} <= set(allowed.tolist())


def test_a_bias_can_not_undo_a_mask() -> None:
    sampled = Sampler(VOCAB).sample(logits_of(1), [row(mask_of(np.array([5])), top_k=1, logit_bias={9: 100.0})])
    assert sampled[0] == [5]


def test_the_mask_has_the_last_word_about_the_end() -> None:
    """A grammar that can only end must not leave a row without any token."""
    tokens, invalid, _ = Sampler(VOCAB).sample(logits_of(1), [row(mask_of(np.array([7])), min_new_tokens=9, top_k=1)])
    assert (tokens, invalid) == ([7], None)


def test_a_mask_has_the_last_word_about_what_the_maximum_may_be() -> None:
    masked = mask_of(np.array([5]))
    assert takes_maximum(row(None, top_k=1))
    assert takes_maximum(row(masked, top_k=1, min_new_tokens=9))
    assert not takes_maximum(row(None, top_k=1, min_new_tokens=9))
    assert not takes_maximum(row(masked, temperature=1.0))


def test_a_forced_token_has_probability_one() -> None:
    asked = row(mask_of(np.array([5])), temperature=1.0)
    asked.return_logprob, asked.top_logprobs_num, asked.token_ids_logprob = True, 2, [7]
    _, _, logprobs = Sampler(VOCAB).sample(logits_of(1), [asked])
    assert logprobs is not None
    assert logprobs[0] is not None
    lowest = float(np.finfo(np.float32).min)
    assert (logprobs[0].logprob, logprobs[0].top_idx) == (0.0, [5, 0])
    assert (logprobs[0].top_val, logprobs[0].ids_val) == ([0.0, lowest], [lowest]), "JSON has no infinity"
