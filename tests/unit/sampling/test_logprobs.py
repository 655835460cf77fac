"""Prompt scoring: plain log-softmax in chunks that don't show."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sglang.sampling import logprobs
from sglang.sampling.logprobs import score_prompt
from sglang.sampling.rows import PromptLogprobRow
from unit.sampling.oracle import log_softmax

VOCAB = 50


def request(targets: list[int], top: int = 0, ids: list[int] | None = None) -> PromptLogprobRow:
    return PromptLogprobRow(row=0, offset=0, targets=targets, top_logprobs_num=top, token_ids_logprob=ids)


def test_scores_are_the_log_softmax_of_each_position() -> None:
    table = np.random.default_rng(1).standard_normal((9, VOCAB)).astype(np.float32)
    targets = [4, 0, 49, 7, 7, 7, 30, 2, 1]
    answers = score_prompt(lambda rows: rows.copy(), table, request(targets, 3, [9]), VOCAB)
    for row, target, answer in zip(table, targets, answers, strict=True):
        wanted = log_softmax(row.astype(np.float64).tolist())
        best = sorted(range(VOCAB), key=lambda token: -wanted[token])[:3]
        assert answer.logprob == pytest.approx(wanted[target], abs=1e-5)
        assert answer.top_idx == best
        assert answer.top_val == pytest.approx([wanted[token] for token in best], abs=1e-5)
        assert answer.ids_val == pytest.approx([wanted[9]], abs=1e-5)


@pytest.mark.parametrize("rows_per_chunk", [1, 2, 3, 100])
def test_chunks_bound_the_projection_and_leave_no_trace(monkeypatch: pytest.MonkeyPatch, rows_per_chunk: int) -> None:
    table = np.random.default_rng(2).standard_normal((10, VOCAB)).astype(np.float32)
    whole = score_prompt(lambda rows: rows.copy(), table, request(list(range(10)), 2), VOCAB)
    monkeypatch.setattr(logprobs, "CHUNK_BYTES", rows_per_chunk * 4 * VOCAB)
    sizes: list[int] = []

    def project(rows: np.ndarray) -> np.ndarray:
        sizes.append(len(rows))
        return rows.copy()

    assert score_prompt(project, table, request(list(range(10)), 2), VOCAB) == whole
    assert max(sizes) == min(rows_per_chunk, 10)
    assert sum(sizes) == 10


def test_a_vocabulary_larger_than_a_chunk_goes_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logprobs, "CHUNK_BYTES", 1)
    table = np.zeros((3, VOCAB), np.float32)
    answers = score_prompt(lambda rows: rows.copy(), table, request([1, 2, 3]), VOCAB)
    assert [answer.logprob for answer in answers] == pytest.approx([-math.log(VOCAB)] * 3)


def test_broken_prompt_logits_give_finite_scores() -> None:
    table = np.full((1, VOCAB), math.nan, np.float32)
    (answer,) = score_prompt(lambda rows: rows.copy(), table, request([1], 2), VOCAB)
    assert math.isfinite(answer.logprob)
    assert answer.top_idx == [0, 1]


def test_nothing_to_score() -> None:
    assert score_prompt(lambda rows: rows, np.zeros((0, VOCAB), np.float32), request([]), VOCAB) == []
