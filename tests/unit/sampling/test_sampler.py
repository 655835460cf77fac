"""The whole order of work, row by row, against the float64 oracle."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from sglang.ipc.sampling_params import parse_sampling_params
from sglang.sampling.rows import SampleRow
from sglang.sampling.sampler import Sampler
from unit.sampling.oracle import adjusted, distribution, log_softmax

VOCAB = 120


def make_row(params: dict[str, Any], **fields: Any) -> SampleRow:
    base: dict[str, Any] = {"row": 0, "seed": 1, "position": 0, "output_ids": [], "stop_ids": frozenset()}
    return SampleRow(params=parse_sampling_params(params, vocab_size=VOCAB), **(base | fields))


def random_logits(seed: int, rows: int = 1, spread: float = 2.0, vocab: int = VOCAB) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((rows, vocab)) * spread).astype(np.float32)


def sample_one(logits: np.ndarray, row: SampleRow) -> tuple[int, Any]:
    tokens, invalid, logprobs = Sampler(logits.shape[-1]).sample(logits.copy(), [row])
    assert invalid is None
    return tokens[0], logprobs and logprobs[0]


OUTPUT = [3, 3, 3, 8, 8, 21, 40]
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "greedy": ({"temperature": 0}, {}),
    "top_k_1_with_temperature": ({"top_k": 1, "temperature": 0.3}, {}),
    "cold": ({"temperature": 0.5}, {}),
    "hot": ({"temperature": 3.0}, {}),
    "frequency": ({"frequency_penalty": 1.3}, {"output_ids": OUTPUT}),
    "frequency_reward": ({"frequency_penalty": -2}, {"output_ids": OUTPUT}),
    "presence": ({"presence_penalty": 1.7}, {"output_ids": OUTPUT}),
    "repetition": ({"repetition_penalty": 1.8}, {"output_ids": OUTPUT}),
    "repetition_reward": ({"repetition_penalty": 0.5}, {"output_ids": OUTPUT}),
    "all_penalties": (
        {"frequency_penalty": 0.4, "presence_penalty": 0.6, "repetition_penalty": 1.5},
        {"output_ids": OUTPUT},
    ),
    "penalties_without_output": ({"frequency_penalty": 2, "repetition_penalty": 2}, {}),
    "bias": ({"logit_bias": {"5": 4.5, "6": -100, "119": 2}}, {}),
    "bias_after_penalty": ({"repetition_penalty": 2, "logit_bias": {"3": 5}}, {"output_ids": OUTPUT}),
    "min_new_tokens": ({"min_new_tokens": 3}, {"stop_ids": frozenset({1, 50, 10**6}), "position": 2}),
    "min_new_tokens_reached": ({"min_new_tokens": 3}, {"stop_ids": frozenset({1, 50}), "position": 3}),
    "masked_and_biased": ({"min_new_tokens": 1, "logit_bias": {"1": 100}}, {"stop_ids": frozenset({1})}),
    "top_k": ({"top_k": 4}, {}),
    "top_p": ({"top_p": 0.7}, {}),
    "min_p": ({"min_p": 0.2}, {}),
    "everything": (
        {
            "temperature": 0.8,
            "top_k": 30,
            "top_p": 0.9,
            "min_p": 0.01,
            "frequency_penalty": 0.2,
            "presence_penalty": -0.3,
            "repetition_penalty": 1.1,
            "logit_bias": {"3": 1.0},
            "min_new_tokens": 9,
        },
        {"output_ids": OUTPUT, "position": 7, "stop_ids": frozenset({2})},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_drawn_tokens_follow_the_oracle(case: str) -> None:
    params, fields = CASES[case]
    logits = random_logits(17)
    row = make_row(params, **fields)
    count = 4000
    hits = np.zeros(VOCAB)
    sampler = Sampler(VOCAB)
    for seed in range(count):
        row.seed = seed
        tokens, _, _ = sampler.sample(logits.copy(), [row])
        hits[tokens[0]] += 1
    wanted = distribution(logits[0].tolist(), row)
    assert set(np.flatnonzero(hits)) <= set(wanted)
    chi_square = sum((hits[token] - p * count) ** 2 / (p * count) for token, p in wanted.items() if p)
    freedom = max(1, len(wanted) - 1)
    assert chi_square < freedom + 5 * math.sqrt(2 * freedom)


@pytest.mark.parametrize("case", CASES)
def test_logprobs_follow_the_oracle(case: str) -> None:
    params, fields = CASES[case]
    logits = random_logits(23)
    row = make_row(params, **fields, return_logprob=True, top_logprobs_num=5, token_ids_logprob=[7, 3, 3])
    token, answer = sample_one(logits, row)
    # Filters don't show in logprobs; greedy rows have temperature 1.
    temperature = 1.0 if row.params.is_greedy else row.params.temperature
    wanted = log_softmax(adjusted(logits[0].tolist(), row), temperature)
    assert answer.logprob == pytest.approx(wanted[token], abs=2e-5)
    order = sorted(range(VOCAB), key=lambda item: -wanted[item])[:5]
    assert answer.top_idx == order
    assert answer.top_val == pytest.approx([wanted[item] for item in order], abs=2e-5)
    assert answer.top_val == sorted(answer.top_val, reverse=True)
    assert answer.ids_val == pytest.approx([wanted[7], wanted[3], wanted[3]], abs=2e-5)
    if row.params.is_greedy:
        assert token == answer.top_idx[0]


def test_asking_for_logprobs_does_not_change_the_token() -> None:
    logits = random_logits(4)
    for seed in range(50):
        quiet, asking = make_row({"top_p": 0.9}, seed=seed), make_row({"top_p": 0.9}, seed=seed, return_logprob=True)
        assert sample_one(logits, quiet)[0] == sample_one(logits, asking)[0]


def test_seed_and_position_decide_the_draw() -> None:
    logits = np.zeros((1, VOCAB), np.float32)
    first = [sample_one(logits, make_row({}, seed=5, position=p))[0] for p in range(20)]
    assert first == [sample_one(logits, make_row({}, seed=5, position=p))[0] for p in range(20)]
    assert first != [sample_one(logits, make_row({}, seed=6, position=p))[0] for p in range(20)]
    assert len(set(first)) > 10


def test_rows_come_out_the_same_alone_shuffled_and_in_any_company() -> None:
    vocab = 3001  # no multiple of any vector width: rows start at every alignment
    rows, rng = [], np.random.default_rng(0)
    for index, (params, fields) in enumerate([*CASES.values()] * 2):
        rows.append(make_row(params, **fields, seed=index, return_logprob=index % 3 == 0, top_logprobs_num=index % 4))
    logits = random_logits(99, len(rows), 3.0, vocab)
    sampler = Sampler(vocab)
    alone = []
    for index, row in enumerate(rows):
        tokens, _, logprobs = sampler.sample(logits[index : index + 1].copy(), [row])
        alone.append((tokens[0], logprobs[0] if logprobs else None))
    for size in (2, 7, len(rows)):
        order = rng.permutation(len(rows))[:size]
        tokens, _, logprobs = sampler.sample(logits[order], [rows[index] for index in order])
        together = list(zip(tokens, logprobs or [None] * size, strict=True))
        assert together == [alone[index] for index in order]


def test_greedy_batch_takes_the_lowest_of_equal_maxima() -> None:
    logits = np.zeros((3, VOCAB), np.float32)
    logits[1, [9, 40]] = 2.0
    logits[2, 119] = 1.0
    tokens, invalid, logprobs = Sampler(VOCAB).sample(logits, [make_row({"temperature": 0})] * 3)
    assert (tokens, invalid, logprobs) == ([0, 9, 119], None, None)


def test_logprobs_are_none_only_for_rows_that_did_not_ask() -> None:
    rows = [make_row({"temperature": 0}), make_row({"temperature": 0}, return_logprob=True)]
    tokens, invalid, logprobs = Sampler(VOCAB).sample(np.zeros((2, VOCAB), np.float32), rows)
    assert (tokens, invalid) == ([0, 0], None)
    assert logprobs is not None
    assert logprobs[0] is None
    assert logprobs[1] is not None
    assert logprobs[1].logprob == pytest.approx(-math.log(VOCAB))
    assert (logprobs[1].top_val, logprobs[1].top_idx, logprobs[1].ids_val) == (None, None, None)


def test_more_top_logprobs_than_tokens_lists_the_whole_vocabulary() -> None:
    logits = np.zeros((1, 4), np.float32)
    logits[0, 2] = 200.0  # the others underflow to probability 0, and still have a logprob
    row = make_row({"temperature": 0}, return_logprob=True, top_logprobs_num=9)
    _, answer = sample_one(logits, row)
    assert answer.top_idx == [2, 0, 1, 3]
    assert answer.top_val == pytest.approx([0.0, -200.0, -200.0, -200.0])


@pytest.mark.parametrize("temperature", [1e-6, 1e-3, 1e30, 1e308])
def test_extreme_temperatures_are_harmless(temperature: float) -> None:
    logits = random_logits(8, spread=30.0)
    row = make_row({"temperature": temperature, "min_new_tokens": 1}, stop_ids=frozenset({5}), return_logprob=True)
    token, answer = sample_one(logits, row)
    assert token != 5
    assert math.isfinite(answer.logprob)
    if temperature < 1e-2:
        assert token == int(logits[0].argmax())
    else:
        assert answer.logprob == pytest.approx(-math.log(VOCAB - 1), abs=1e-4)


@pytest.mark.parametrize("poison", [math.nan, math.inf])
@pytest.mark.parametrize("params", [{"temperature": 0}, {}, {"top_p": 0.5, "repetition_penalty": 1.2}])
def test_broken_logits_are_flagged_and_end_with_a_stop_token(poison: float, params: dict[str, Any]) -> None:
    logits = random_logits(3, 3)
    logits[1, 60] = poison
    rows = [make_row(params, stop_ids=frozenset({44, 70, 999}), return_logprob=True) for _ in range(3)]
    healthy, _, _ = Sampler(VOCAB).sample(logits[[0, 2]], [rows[0], rows[2]])
    tokens, invalid, logprobs = Sampler(VOCAB).sample(logits.copy(), rows)
    assert invalid == [False, True, False]
    assert tokens == [healthy[0], 44, healthy[1]]
    assert logprobs is not None
    assert logprobs[1] is not None
    assert math.isfinite(logprobs[1].logprob)


def test_broken_logits_without_stop_tokens_give_the_best_of_the_rest() -> None:
    logits = np.full((2, 6), math.nan, np.float32)
    logits[0, 4] = 1.0
    tokens, invalid, _ = Sampler(6).sample(logits, [make_row({}), make_row({})])
    assert (tokens, invalid) == ([4, 0], [True, True])


def test_a_row_with_nothing_possible_is_broken_too() -> None:
    logits = np.full((1, 6), -math.inf, np.float32)
    tokens, invalid, _ = Sampler(6).sample(logits, [make_row({})])
    assert (tokens, invalid) == ([0], [True])


def test_no_rows() -> None:
    assert Sampler(6).sample(np.zeros((0, 6), np.float32), []) == ([], None, None)
