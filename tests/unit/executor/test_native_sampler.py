"""The kernels' sampler against the reference in numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sglang.executor.native_sampler import NativeSampler
from sglang.ipc.sampling_params import parse_sampling_params
from sglang.ops.native import NativeOps, load_kernels
from sglang.sampling.rows import SampleRow
from sglang.sampling.sampler import Sampler

VOCAB = 5000
KERNELS = load_kernels()
pytestmark = pytest.mark.skipif(KERNELS is None, reason="the native kernels are not built")

KINDS: list[dict[str, Any]] = [
    {"temperature": 0}, {"temperature": 1.0}, {"temperature": 0.3}, {"temperature": 5.0}, {"top_k": 1}, {"top_k": 30},
    {"top_p": 0.9}, {"top_p": 0.01}, {"min_p": 0.1}, {"top_k": 50, "top_p": 0.8, "min_p": 0.02, "temperature": 1.5},
    {"temperature": 0, "frequency_penalty": 1.5, "repetition_penalty": 1.3}, {"logit_bias": {"7": 60}, "top_p": 0.5},
    {"temperature": 0, "min_new_tokens": 5},
]  # fmt: skip


@pytest.fixture(scope="module")
def sampler() -> NativeSampler:
    return NativeSampler(NativeOps(KERNELS, 2), VOCAB)


def rows(seed: int, **fields: Any) -> list[SampleRow]:
    return [
        SampleRow(
            row=index,
            params=parse_sampling_params(kind, vocab_size=VOCAB),
            seed=seed + index,
            position=3,
            output_ids=[1, 2, 2],
            stop_ids=frozenset({9}),
            **fields,
        )
        for index, kind in enumerate(KINDS)
    ]


def noise(seed: int, count: int = len(KINDS)) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((count, VOCAB)) * 3).astype(np.float32)


def test_tokens_and_logprobs_equal_the_reference(sampler: NativeSampler) -> None:
    """Where two sums round apart a draw may land next door: one in a thousand is allowed, none is expected."""
    different = total = 0
    for seed in range(40):
        asked = rows(100 * seed, return_logprob=True, top_logprobs_num=4, token_ids_logprob=[0, 9, 77])
        logits = noise(seed)
        tokens, invalid, logprobs = sampler.sample(logits.copy(), asked)
        want_tokens, _, want = Sampler(VOCAB).sample(logits.copy(), asked)
        assert invalid is None
        for token, want_token, got, expected in zip(tokens, want_tokens, logprobs or [], want or [], strict=True):
            total += 1
            different += token != want_token
            assert got is not None
            assert expected is not None
            assert got.top_idx == expected.top_idx
            assert np.allclose(got.top_val, expected.top_val, atol=1e-4)
            assert np.allclose(got.ids_val, expected.ids_val, atol=1e-4)
            if token == want_token:
                assert got.logprob == pytest.approx(expected.logprob, abs=1e-4)
    assert different <= total // 1000 + 1


def test_rows_are_the_same_bits_alone_and_in_company(sampler: NativeSampler) -> None:
    asked, logits = rows(5, return_logprob=True, top_logprobs_num=2), noise(1)
    together = sampler.sample(logits.copy(), asked)
    for index, row in enumerate(asked):
        tokens, _, logprobs = sampler.sample(logits[index : index + 1].copy(), [row])
        assert tokens == together[0][index : index + 1]
        assert logprobs == (together[2] or [])[index : index + 1]


def test_masks_and_broken_rows(sampler: NativeSampler) -> None:
    asked, logits = rows(7), noise(2)
    asked[1].mask = np.zeros(-(-VOCAB // 32), np.int32)
    asked[1].mask[2] = 1 << 5
    logits[3, 50] = np.nan
    logits[5] = -np.inf
    tokens, invalid, _ = sampler.sample(logits.copy(), asked)
    want, want_invalid, _ = Sampler(VOCAB).sample(logits.copy(), asked)
    assert tokens[1] == 69
    assert invalid == want_invalid == [index in (3, 5) for index in range(len(asked))]
    assert tokens == want


def test_no_rows(sampler: NativeSampler) -> None:
    assert sampler.sample(np.zeros((0, VOCAB), np.float32), []) == ([], None, None)


@pytest.mark.parametrize("count", [1, 3, 700, 2500, VOCAB - 2, VOCAB])
def test_masks_are_those_of_the_reference(sampler: NativeSampler, count: int) -> None:
    """Some rows are masked, some are not; the masks end before the vocabulary does, or after it."""
    rng = np.random.default_rng(count)
    asked = rows(count, return_logprob=True, top_logprobs_num=2)
    words = VOCAB // 32 + (count % 2)
    for index, row in enumerate(asked):
        bits = np.zeros(32 * words, np.uint8)
        bits[rng.permutation(min(32 * words, VOCAB))[:count]] = 1
        row.mask = None if index % 3 == 2 else np.packbits(bits, bitorder="little").view(np.int32)
    logits = noise(count)
    tokens, invalid, logprobs = sampler.sample(logits.copy(), asked)
    want_tokens, want_invalid, want = Sampler(VOCAB).sample(logits.copy(), asked)
    assert (tokens, invalid) == (want_tokens, want_invalid)
    assert logprobs is not None
    assert want is not None
    assert [entry and entry.top_idx for entry in logprobs] == [entry and entry.top_idx for entry in want]
