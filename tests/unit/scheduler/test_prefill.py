"""Admission: what is reused, chunked, mixed, put off, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from sglang.processes.scheduler.admit import CATCH_UP, SMALLEST_SHARE
from sglang.processes.scheduler.core import SchedulerCore
from sglang.processes.scheduler.request import Request
from unit.scheduler.fakes import ArithmeticExecutor, Caller, make_core, make_request, run_all, step


def rows(core: SchedulerCore) -> tuple[list[int], list[int]]:
    """Choose the next batch and settle it; (query lengths, context lengths) of its rows."""
    batch = core.next_batch()
    assert batch is not None
    core.settle(batch, ArithmeticExecutor(core.config.num_slots).run(batch))
    return batch.query_lens.tolist(), batch.seq_lens.tolist()


def names(requests: list[Request]) -> list[str]:
    return [request.rid for request in requests]


@pytest.mark.parametrize(("page", "cached"), [(1, 29), (4, 28), (16, 16)])
def test_a_repeated_prompt_reuses_all_but_one_token(page: int, cached: int) -> None:
    core = make_core(page_size=page)
    executor, caller = ArithmeticExecutor(256), Caller()
    for rid in ("first", "second"):
        core.add(make_request(rid, 30))
        run_all(core, executor, caller)
    assert caller["first"].cached == 0
    assert caller["second"].cached == cached
    assert caller["second"].tokens == caller["first"].tokens


def test_output_is_cached_up_to_the_token_that_was_never_computed() -> None:
    core = make_core()
    executor, caller = ArithmeticExecutor(256), Caller()
    core.add(make_request("a", [1, 2, 3], max_new_tokens=5))
    run_all(core, executor, caller)
    core.add(make_request("b", [1, 2, 3, *caller["a"].tokens, 4]))
    run_all(core, executor, caller)
    assert caller["b"].cached == 3 + 4


@pytest.mark.parametrize("fields", [{"extra_key": "k"}, {"cache_salt": "s"}, {"lora_id": "l"}])
def test_other_namespaces_reuse_nothing(fields: dict[str, str]) -> None:
    core = make_core()
    executor, caller = ArithmeticExecutor(256), Caller()
    for rid, extra in (("plain", {}), ("marked", fields), ("again", fields)):
        core.add(make_request(rid, 20, **extra))
        run_all(core, executor, caller)
    assert [caller[rid].cached for rid in ("plain", "marked", "again")] == [0, 0, 19]


@pytest.mark.parametrize(("start", "cached"), [(0, 0), (5, 5), (19, 19), (20, 19), (-1, 19)])
def test_prompt_logprobs_limit_reuse(start: int, cached: int) -> None:
    core = make_core()
    executor, caller = ArithmeticExecutor(256), Caller()
    core.add(make_request("warm", 20))
    run_all(core, executor, caller)
    core.add(make_request("scored", 20, return_logprob=True, logprob_start_len=start))
    run_all(core, executor, caller)
    assert caller["scored"].cached == cached


def test_a_long_prompt_goes_in_chunks_and_says_nothing_before_the_last() -> None:
    core = make_core(chunked_prefill_size=8)
    caller = Caller()
    core.add(make_request("long", 20, stream=True))
    assert rows(core) == ([8], [8])
    caller.take(core)
    assert rows(core) == ([8], [16])
    caller.take(core)
    assert caller.outcomes == {}
    assert rows(core) == ([4], [20])
    caller.take(core)
    assert caller["long"].chunks == [1]


def test_chunks_end_on_page_borders_and_the_rest_of_a_chunk_is_used() -> None:
    core = make_core(chunked_prefill_size=10, page_size=4)
    core.add(make_request("long", [1] * 19))
    core.add(make_request("short", [2] * 3))
    core.add(make_request("next", [3] * 30))
    assert rows(core) == ([8], [8])
    assert rows(core) == ([8], [16])
    assert rows(core) == ([3, 3, 4], [19, 3, 4])


def test_a_chunk_smaller_than_a_page_still_makes_progress() -> None:
    core = make_core(chunked_prefill_size=1, page_size=16)
    core.add(make_request("long", 40))
    assert rows(core) == ([16], [16])
    assert rows(core) == ([16], [32])
    assert rows(core) == ([8], [40])


def test_computed_chunks_are_shared_before_the_prompt_is_done() -> None:
    core = make_core(chunked_prefill_size=16)
    core.add(make_request("long", 40))
    rows(core)
    assert core.memory.cache.protected_size == 16


def test_prefill_comes_before_decode() -> None:
    core = make_core()
    core.add(make_request("a", [1] * 5))
    rows(core)
    core.add(make_request("b", [2] * 7))
    assert rows(core) == ([7], [7])
    assert rows(core) == ([1, 1], [6, 8])


def test_mixed_chunks_decode_while_a_prompt_is_computed() -> None:
    core = make_core(chunked_prefill_size=8, enable_mixed_chunk=True)
    core.add(make_request("a", [1] * 5))
    rows(core)
    core.add(make_request("b", [2] * 12))
    assert rows(core) == ([7, 1], [7, 6])  # the decode row counts towards the chunk
    assert rows(core) == ([5, 1], [12, 7])


def test_a_share_of_the_step_is_for_prompts_while_others_decode() -> None:
    core = make_core(
        num_slots=1000, context_length=200, max_prefill_tokens=1000, max_running_requests=64, prompt_share=1.0
    )
    for number in range(40):
        core.add(make_request(str(number), [number] * 2, max_new_tokens=20))
    assert rows(core)[0] == [2] * 40  # nobody waits for this pass, so it takes all it may
    core.add(make_request("late", [50] * 100, max_new_tokens=20))
    core.add(make_request("later", [60] * 5, max_new_tokens=20))
    for expected in ([40], [40], [20, 5]):
        assert rows(core)[0] == expected + [1] * 40
    assert rows(core)[0] == [1] * 42


def test_the_share_of_prompts_is_never_tiny_and_never_above_the_chunk() -> None:
    for chunk, expected in ((None, SMALLEST_SHARE), (5, 5)):
        core = make_core(prompt_share=0.75, chunked_prefill_size=chunk)
        core.add(make_request("a", [1] * 4))
        rows(core)
        core.add(make_request("b", [2] * 40))
        assert rows(core)[0] == [expected, 1]


def test_where_more_wait_than_run_they_catch_up() -> None:
    core = make_core(
        num_slots=3000, context_length=800, max_prefill_tokens=5000, max_running_requests=64, prompt_share=1.0
    )
    core.add(make_request("a", [1] * 4))
    rows(core)
    for number in range(2, 6):
        core.add(make_request(str(number), [number] * 300))
    assert rows(core)[0] == [300, CATCH_UP - 300, 1]  # four wait for one
    assert rows(core)[0] == [SMALLEST_SHARE, 1, 1]  # two run, two wait


def test_limits_of_a_pass() -> None:
    for settings, first in (
        ({"max_prefill_tokens": 128}, [50, 50]),
        ({"prefill_max_requests": 1}, [50]),
        ({"max_running_requests": 2}, [50, 50]),
        ({}, [50, 50, 50]),
    ):
        core = make_core(**{"num_slots": 1000, "max_prefill_tokens": 1000, **settings})
        for number in range(3):
            core.add(make_request(str(number), [number] * 50, max_new_tokens=2))
        assert rows(core)[0] == first, settings


def test_admission_reserves_the_expected_output() -> None:
    core = make_core(num_slots=100, init_new_token_ratio=0.5)
    core.add(make_request("a", [1] * 20, max_new_tokens=41))
    rows(core)
    core.add(make_request("b", [2] * 20, max_new_tokens=42))  # 20 + 41 > 80 - 0.5·40
    assert rows(core) == ([1], [21])
    core.abort("b")
    core.add(make_request("c", [3] * 20, max_new_tokens=38))
    assert rows(core)[0] == [20]


# ------------------------------------------------------------------ prefix sharing inside a batch


def test_requests_that_share_a_long_prefix_wait_for_the_first_one() -> None:
    core = make_core(num_slots=1000, max_running_requests=16)
    executor, caller = ArithmeticExecutor(1000), Caller()
    for number in range(4):
        core.add(make_request(str(number), [*range(40), 50 + number]))
    core.add(make_request("other", [9] * 20))
    assert names(core.waiting.ordered(0))[0] == "0"
    assert rows(core)[0] == [41, 20]
    run_all(core, executor, caller)
    assert [caller[str(number)].cached for number in range(4)] == [0, 40, 40, 40]


def test_short_or_foreign_prefixes_are_not_waited_for() -> None:
    for prompts in (([*range(31), 1], [*range(31), 2]),):
        core = make_core(num_slots=1000)
        for number, prompt in enumerate(prompts):
            core.add(make_request(str(number), prompt))
        assert len(rows(core)[0]) == 2
    core = make_core(num_slots=1000)
    core.add(make_request("a", 50))
    core.add(make_request("b", 50, cache_salt="mine"))
    assert len(rows(core)[0]) == 2


def test_nobody_waits_for_a_prefix_for_ever() -> None:
    core = make_core(num_slots=10_000, max_running_requests=64, prefill_max_requests=1, policy="lof")
    core.add(make_request("patient", [*range(40), 99], max_new_tokens=1))
    executor, caller = ArithmeticExecutor(10_000), Caller()
    for number in range(20):  # each has more tokens to come, so it goes first, with a prefix of its own to share
        core.add(make_request(f"r{number}", [*range(40), number], max_new_tokens=20, extra_key=str(number)))
    while "patient" not in caller.outcomes:
        step(core, executor, caller)
        assert executor.steps < 200


# ------------------------------------------------------------------ orders of the queue


def queue_order(policy: str, **settings: Any) -> list[str]:
    core = make_core(num_slots=2000, policy=policy, max_running_requests=1, **settings)
    executor = ArithmeticExecutor(2000)
    core.add(make_request("warm", [*range(30)]))
    run_all(core, executor)
    core.add(make_request("cold", [60] * 12, max_new_tokens=3))
    core.add(make_request("branch", [*range(10), 70, 71], max_new_tokens=9))
    core.add(make_request("deep", [*range(25), 80, 81, 82], max_new_tokens=5))
    core.add(make_request("twin", [*range(10), 70, 72], max_new_tokens=1))
    return names(core.waiting.ordered(core.stats.processed_tokens))


def test_policies_order_the_queue() -> None:
    arrival = ["cold", "branch", "deep", "twin"]
    assert queue_order("fcfs") == arrival
    assert queue_order("lpm") == ["deep", "branch", "twin", "cold"]
    assert queue_order("dfs-weight") == ["branch", "deep", "twin", "cold"]
    assert queue_order("lof") == ["branch", "deep", "cold", "twin"]
    assert queue_order("shortest-prefill-first") == ["branch", "twin", "deep", "cold"]
    assert queue_order("hrrn") == arrival  # nothing has been processed since they arrived
    shuffled = {tuple(queue_order("random", rng_seed=seed)) for seed in range(10)}
    assert len(shuffled) > 1
    assert all(sorted(order) == sorted(arrival) for order in shuffled)


def test_cache_policies_are_fcfs_without_a_cache() -> None:
    for policy in ("lpm", "dfs-weight"):
        assert queue_order(policy, enable_prefix_cache=False) == ["cold", "branch", "deep", "twin"]


def test_long_queues_are_not_looked_up() -> None:
    core = make_core(policy="lpm", num_slots=5000)
    core.add(make_request("warm", [*range(30)]))
    run_all(core, ArithmeticExecutor(5000))
    for number in range(128):
        core.add(make_request(str(number), [90, number % 90]))
    core.add(make_request("hit", [*range(30)]))
    assert names(core.waiting.ordered(0))[0] == "0"
    core.abort("0")
    assert names(core.waiting.ordered(0))[0] == "hit"


def test_unknown_policies_fall_back_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert make_core(policy="routing-key").waiting.policy == "fcfs"
    assert "routing-key" in caplog.text


def test_a_request_can_be_overtaken_only_so_often() -> None:
    core = make_core(policy="lpm", num_slots=4000, max_running_requests=1)
    executor, caller = ArithmeticExecutor(4000), Caller()
    core.add(make_request("hot", [*range(30)], max_new_tokens=1))
    run_all(core, executor, caller)
    core.add(make_request("cold", [90] * 5, max_new_tokens=1))
    for number in range(400):
        core.add(make_request(f"h{number}", [*range(30)], max_new_tokens=1))
        step(core, executor, caller, check=False)
        if "cold" in caller.outcomes:
            break
    assert 256 <= number <= 260


def test_hrrn_serves_whoever_waited_longest_for_its_size() -> None:
    core = make_core(policy="hrrn", num_slots=2000)
    core.add(make_request("long", [1] * 100))
    core.add(make_request("short", [2] * 5))
    assert names(core.waiting.ordered(1000)) == ["short", "long"]
