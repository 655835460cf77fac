"""Filters and the draw, against the float64 oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sglang.ipc.sampling_params import TOP_K_ALL, SamplingParams
from sglang.sampling.candidates import CUTS, rank
from sglang.sampling.draw import BLOCK, draw
from sglang.sampling.uniform import uniform
from unit.sampling.oracle import kept, log_softmax


def views(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    shifted = (logits - logits.max()).astype(np.float32)
    return shifted, np.exp(shifted)


def draw_many(logits: np.ndarray, params: SamplingParams, count: int) -> list[int]:
    shifted, weights = views(logits)
    return [draw(shifted, weights, params, (step + 0.5) / count) for step in range(count)]


def random_logits(seed: int, size: int, spread: float) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(size) * spread).astype(np.float32)


@pytest.mark.parametrize("spread", [0.3, 3.0, 30.0])
@pytest.mark.parametrize(
    ("top_k", "top_p", "min_p"),
    [
        (TOP_K_ALL, 1.0, 0.0),
        (1, 1.0, 0.0),
        (7, 1.0, 0.0),
        (299, 1.0, 0.0),
        (TOP_K_ALL, 0.9, 0.0),
        (TOP_K_ALL, 0.001, 0.0),
        (TOP_K_ALL, 0.999999, 0.0),
        (TOP_K_ALL, 1.0, 0.05),
        (TOP_K_ALL, 1.0, 1.0),
        (20, 0.8, 0.02),
        (3, 0.99, 0.5),
    ],
)
def test_each_token_gets_its_share_of_the_quantiles(spread: float, top_k: int, top_p: float, min_p: float) -> None:
    """Evenly spaced quantiles must hit each token as often as its probability says, give or take one."""
    logits = random_logits(5, 300, spread)
    steps = 6000
    hits = np.bincount(draw_many(logits, SamplingParams(top_k=top_k, top_p=top_p, min_p=min_p), steps), minlength=300)
    logprobs = log_softmax(logits.astype(np.float64).tolist())
    survivors = kept(logprobs, top_k, top_p, min_p)
    total = math.fsum(math.exp(logprobs[token]) for token in survivors)
    for token in range(300):
        share = math.exp(logprobs[token]) / total if token in survivors else 0.0
        assert abs(hits[token] - share * steps) <= 1.01, token


def test_seeded_draws_follow_the_distribution() -> None:
    logits = random_logits(11, 40, 1.5)
    shifted, weights = views(logits)
    params = SamplingParams(top_p=0.95)
    count = 20_000
    hits = np.bincount([draw(shifted, weights, params, uniform(3, p)) for p in range(count)], minlength=40)
    logprobs = log_softmax(logits.astype(np.float64).tolist())
    survivors = kept(logprobs, TOP_K_ALL, 0.95, 0.0)
    expected = np.exp([logprobs[token] for token in survivors])
    expected *= count / expected.sum()
    chi_square = float(((hits[survivors] - expected) ** 2 / expected).sum())
    freedom = len(survivors) - 1
    assert hits.sum() == hits[survivors].sum()
    assert chi_square < freedom + 4 * math.sqrt(2 * freedom)


def test_top_p_keeps_the_token_that_crosses_the_line_and_the_one_exactly_on_it() -> None:
    # Exact probabilities 1/2, 1/4, 1/8, 1/8: the sum before the third token is exactly 0.75.
    logits = np.log(np.array([4, 2, 1, 1], np.float64)).astype(np.float32)
    weights = np.array([1, 0.5, 0.25, 0.25], np.float32)
    outcomes = {
        top_p: {draw(logits - logits.max(), weights, SamplingParams(top_p=top_p), u / 64 + 1 / 128) for u in range(64)}
        for top_p in (0.4999, 0.5, 0.7499, 0.75, 0.8749, 0.875)
    }
    assert outcomes == {
        0.4999: {0},
        0.5: {0, 1},
        0.7499: {0, 1},
        0.75: {0, 1, 2},
        0.8749: {0, 1, 2},
        0.875: {0, 1, 2, 3},
    }


def test_equal_probabilities_are_ranked_by_id() -> None:
    logits = np.zeros(1000, np.float32)
    assert set(draw_many(logits, SamplingParams(top_k=3), 90)) == {0, 1, 2}
    logits[[900, 17]] = 1.0
    assert set(draw_many(logits, SamplingParams(top_k=3), 900)) == {17, 900, 0}


def test_top_k_and_top_p_look_at_the_unfiltered_distribution() -> None:
    # top_k = 2 leaves 0.5 and 0.3; renormalised first, top_p = 0.6 would drop the second (0.625 before it).
    logits = np.log(np.array([0.5, 0.3, 0.2])).astype(np.float32)
    assert set(draw_many(logits, SamplingParams(top_k=2, top_p=0.6), 50)) == {0, 1}


@pytest.mark.parametrize("size", [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 1000])
def test_the_ends_of_the_quantile_range_give_tokens_that_are_possible(size: int) -> None:
    logits = random_logits(size, size, 2.0)
    logits[size // 2 :] = -np.inf
    logits[0] = 0.0
    shifted, weights = views(logits)
    possible = set(np.flatnonzero(weights > 0).tolist())
    for params in (SamplingParams(), SamplingParams(top_p=0.9999999), SamplingParams(top_k=size)):
        for u in (2.0**-53, 0.5, 1.0 - 2.0**-53, 1.0):
            assert draw(shifted, weights, params, u) in possible


def test_unfiltered_draw_equals_the_plain_cumulative_sum() -> None:
    logits = random_logits(2, 5 * BLOCK + 37, 1.0)
    shifted, weights = views(logits)
    summed = np.cumsum(weights.astype(np.float64))
    for step in range(500):
        u = uniform(9, step)
        assert draw(shifted, weights, SamplingParams(), u) == int(np.searchsorted(summed, u * summed[-1], "right"))


@pytest.mark.parametrize("count", [1, 5, 50, 500, 5000])
@pytest.mark.parametrize("spread", [0.1, 3.0, 40.0])
def test_rank_agrees_with_a_full_sort(count: int, spread: float) -> None:
    logits = np.round(random_logits(count, 5000, spread), 1)  # many ties
    shifted, weights = views(logits)
    full = sorted(range(5000), key=lambda token: (-shifted[token], token))
    assert rank(shifted, weights, count)[:count].tolist() == full[:count]


def test_rank_ends_early_only_when_it_may() -> None:
    shifted = np.array([0.0, *np.repeat(np.array(CUTS) - 0.5, 10), -np.inf], np.float32)
    weights = np.exp(shifted)
    assert rank(shifted, weights, 1).size == 1
    assert rank(shifted, weights, 2).size == 11
    assert rank(shifted, weights, 72).size == 72
    mass = float(weights[:25].sum())
    assert weights[rank(shifted, weights, 72, mass)].sum() > mass
    assert set(np.flatnonzero(weights >= 1e-4)) <= set(rank(shifted, weights, 72, at_least=1e-4).tolist())
