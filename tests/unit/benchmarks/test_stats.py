"""Percentiles, sums of replies, floors."""

from __future__ import annotations

import math

import pytest

from benchmarks.serving.floor import Limits, ModelFacts, Work, distinct_tokens, floor_seconds
from benchmarks.serving.stats import Reply, Run, percentile, summary


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1), (0.5, 50), (0.501, 51), (0.99, 99), (0.995, 100), (1.0, 100)]
)
def test_percentile_is_the_nearest_rank(share: float, expected: int) -> None:
    assert percentile(list(range(100, 0, -1)), share) == expected


def test_percentile_of_nothing() -> None:
    assert math.isnan(percentile([], 0.5))
    assert percentile([7.0], 0.99) == 7.0


def test_summary() -> None:
    replies = [
        Reply("a", 3, 0.0, 2.0, [0.5, 1.0, 2.0], "xyz", 10, 3),
        Reply("b", 4, 0.0, 4.0, [1.0, 4.0], "xy", 30, 2, counted=False),
    ]
    got = summary(Run(replies, 4.0, []))
    assert (got["req_s"], got["out_tok_s"], got["in_tok_s"]) == (0.5, 1.25, 10.0)
    assert (got["ttft_p50"], got["ttft_p99"], got["itl_p50"], got["itl_p99"]) == (0.5, 1.0, 1.0, 3.0)
    assert (got["short"], got["uncounted"]) == (1, 1)


def test_without_a_second_piece_there_is_no_gap() -> None:
    assert summary(Run([Reply("a", 1, 0.0, 2.0, [2.0], "x", 1, 1)], 2.0, []))["itl_p99"] is None


def test_shared_prefixes_count_once() -> None:
    assert distinct_tokens([[1, 2, 3], [1, 2, 4], [5]]) == 5
    assert distinct_tokens([[1, 2, 3], [1, 2, 4], [5]], warm=[[1, 2, 9]]) == 3
    assert distinct_tokens([[1, 2], [1, 2]]) == 2


def test_floor_takes_the_tighter_limit_of_decoding() -> None:
    model = ModelFacts(layer_macs=100, head_macs=20, bytes=60)
    few = Work(prompt_tokens=10, output_tokens=5, requests=1, steps=4)
    assert floor_seconds(model, few, Limits(read=10, int8=1000)) == pytest.approx((20 + 1000) / 1000 + 4 * 60 / 10)
    assert floor_seconds(model, few, Limits(read=1e9, int8=1000)) == pytest.approx((20 + 1000 + 4 * 120) / 1000)
