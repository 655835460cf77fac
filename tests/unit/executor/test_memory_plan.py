"""Size of the KV pool from measured memory and flags."""

from __future__ import annotations

from typing import Any

import pytest

from sglang.executor.memory_plan import GB, MemoryPlanError, plan_memory


def slots(**changes: Any) -> int:
    base: dict[str, Any] = {"bytes_per_token": 46080, "context_length": 8192, "available": 20 * GB, "total": 24 * GB}
    return plan_memory(**(base | changes)).num_slots


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 65536),
        ({"context_length": 100_000}, 100_000),
        ({"context_length": 200_000}, 5 * GB // 46080),
        ({"available": 4 * GB}, GB // 46080),
        ({"available": 4 * GB, "page_size": 16}, GB // 46080 // 16 * 16),
        ({"mem_fraction_static": 0.5}, 8 * GB // 46080),
        ({"mem_fraction_static": 1.0}, 20 * GB // 46080),
        ({"max_total_tokens": 1}, 1),
        ({"max_total_tokens": 1000, "page_size": 64}, 960),
        ({"max_total_tokens": 300_000}, 300_000),
        ({"max_total_tokens": 500, "mem_fraction_static": 0.9}, 500),
    ],
)
def test_sizes(changes: dict[str, Any], expected: int) -> None:
    assert slots(**changes) == expected


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_total_tokens": 500_000}, ["500000 tokens", "21.46 GB", "20.00 GB", "at most 466033 tokens"]),
        ({"max_total_tokens": 60, "page_size": 64}, ["60 tokens", "at least 64", "--max-total-tokens 60"]),
        ({"mem_fraction_static": 0.1}, ["0 tokens", "at least 256", "--mem-fraction-static 0.1"]),
        ({"available": 40 << 20}, ["227 tokens", "at least 256", "25% of 0.0 GB"]),
    ],
)
def test_what_does_not_fit_is_refused_with_the_numbers(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(MemoryPlanError) as caught:
        slots(**changes)
    for word in words:
        assert word in str(caught.value)


def test_the_plan_says_why() -> None:
    plan = plan_memory(bytes_per_token=1, context_length=1, available=GB, total=GB, mem_fraction_static=0.25)
    assert (plan.num_slots, plan.reason) == (GB // 4, "--mem-fraction-static 0.25 of 1.0 GB")
