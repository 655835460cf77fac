"""Native sampling against the numpy sampler: the same tokens, logprobs and reports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sglang.ipc.sampling_params import SamplingParams
from sglang.sampling.rows import SampleRow
from sglang.sampling.sampler import Sampler
from sglang.sampling.uniform import uniform

VOCAB = 3001
TOP = 4
CASES: list[dict[str, Any]] = [
    {},
    {"temperature": 0.6},
    {"top_k": 1},
    {"top_k": 20},
    {"top_p": 0.9},
    {"temperature": 2.5, "top_p": 0.97},
    {"min_p": 0.1},
    {"temperature": 1.5, "top_k": 300, "top_p": 0.8, "min_p": 0.01},
]


def run(native: Any, pool: Any, isa: str, logits: np.ndarray, cases: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    params = [SamplingParams(**case) for case in cases]
    result: dict[str, np.ndarray] = native.Sampler(logits.shape[1], isa=isa).sample(
        pool,
        logits,
        np.array([p.temperature for p in params], np.float32),
        np.array([p.top_k for p in params], np.int64),
        np.array([p.top_p for p in params]),
        np.array([p.min_p for p in params]),
        np.array([uniform(7, i) for i in range(len(params))]),
        np.full(len(params), TOP, np.int64),
    )
    return result


def expected(logits: np.ndarray, cases: list[dict[str, Any]]) -> Any:
    rows = [
        SampleRow(i, SamplingParams(**case), 7, i, [], frozenset(), return_logprob=True, top_logprobs_num=TOP)
        for i, case in enumerate(cases)
    ]
    return Sampler(logits.shape[1]).sample(logits.copy(), rows)


@pytest.mark.parametrize("spread", [0.5, 3.0])
def test_tokens_and_logprobs_are_numpys(native: Any, pool: Any, isa: str, spread: float) -> None:
    cases = CASES * 6
    logits = (np.random.default_rng(1).standard_normal((len(cases), VOCAB)) * spread).astype(np.float32)
    logits[:, 5:9] = logits.max(axis=1, keepdims=True)  # ties, and the same order of them
    got = run(native, pool, isa, logits, cases)
    tokens, _, logprobs = expected(logits, cases)
    assert got["tokens"].tolist() == tokens
    assert not got["broken"].any()
    np.testing.assert_allclose(got["logprobs"], [row.logprob for row in logprobs], atol=1e-5)
    assert got["top_ids"].tolist() == [row.top_idx for row in logprobs]
    np.testing.assert_allclose(got["top_values"], [row.top_val for row in logprobs], atol=1e-5)
    scale = np.array([case.get("temperature", 1.0) if case.get("top_k") != 1 else 1.0 for case in cases])
    some = (logits[:, 77] - got["max"]) / scale - got["log_total"]
    reference = logits / scale[:, None]
    reference = reference[:, 77] - np.log(np.exp(reference - reference.max(1, keepdims=True)).sum(1))
    np.testing.assert_allclose(some, reference - logits.max(1) / scale, atol=1e-4)


def test_draws_follow_the_distribution(native: Any, pool: Any, isa: str) -> None:
    """Evenly spread quantiles give every token as often as its probability says."""
    n = 2000
    row = np.log(np.array([5, 1, 0, 3, 1], np.float32) + 1e-30)
    out = native.Sampler(5, isa=isa).sample(
        pool, np.tile(row, (n, 1)), np.ones(n, np.float32), np.zeros(n, np.int64), np.ones(n), np.zeros(n),
        (np.arange(n) + 0.5) / n,
    )  # fmt: skip
    assert np.bincount(out["tokens"], minlength=5).tolist() == [1000, 200, 0, 600, 200]


def test_broken_rows_are_told_and_disturb_nobody(native: Any, pool: Any, isa: str) -> None:
    logits = np.random.default_rng(2).standard_normal((6, VOCAB)).astype(np.float32)
    clean = run(native, pool, isa, logits, [{}] * 6)
    logits[1, 40], logits[3, 9], logits[4] = np.nan, np.inf, -np.inf
    got = run(native, pool, isa, logits, [{}] * 6)
    tokens, broken, _ = expected(logits, [{}] * 6)
    assert got["broken"].tolist() == broken == [False, True, False, True, True, False]
    assert got["tokens"].tolist() == tokens
    assert np.isfinite(got["logprobs"]).all()
    for r in (0, 2, 5):
        assert got["tokens"][r] == clean["tokens"][r]


def test_a_row_has_the_same_bits_in_any_company(native: Any, pool: Any, isa: str) -> None:
    logits = np.random.default_rng(3).standard_normal((8, VOCAB)).astype(np.float32)
    together = run(native, pool, isa, logits, CASES)
    alone = run(native, native.ThreadPool(1), isa, np.ascontiguousarray(logits[:1]), CASES[:1])
    for key in ("tokens", "logprobs", "top_values", "log_total"):
        assert np.array_equal(alone[key][0], together[key][0])
    empty = run(native, pool, isa, logits[:0], [])
    assert empty["tokens"].shape == (0,)


def test_sizes_that_do_not_fit_are_refused(native: Any, pool: Any) -> None:
    one = np.ones(1)
    sampler = native.Sampler(10)
    with pytest.raises(ValueError, match="this sampler takes 10"):
        sampler.sample(pool, np.zeros((1, 9), np.float32), np.ones(1, np.float32), np.ones(1, np.int64), one, one, one)
    with pytest.raises(ValueError, match="one entry for each of the 2 rows"):
        sampler.sample(pool, np.zeros((2, 10), np.float32), np.ones(1, np.float32), np.ones(1, np.int64), one, one, one)


def test_masks_that_do_not_fit_are_refused(native: Any) -> None:
    pool = native.ThreadPool(1)
    logits = np.zeros((2, 64), np.float32)
    mask = np.ones(2, np.int32)
    for wrong, masks in (([0], [mask, mask]), ([2], [mask]), ([-1], [mask]), ([0, 1], [mask, mask[:1]])):
        with pytest.raises(ValueError, match=r"mask|row"):
            native.mask_logits(pool, logits, np.array(wrong, np.int64), masks)
    assert not logits.any()
    native.mask_logits(pool, logits, np.array([1], np.int64), [mask])
    assert np.flatnonzero(np.isfinite(logits[1])).tolist() == [0, 32]
    assert np.isfinite(logits[0]).all()
