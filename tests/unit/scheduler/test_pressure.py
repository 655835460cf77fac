"""When memory runs out: retraction, preemption by priority, and the ends of the line."""

from __future__ import annotations

from typing import Any

import pytest

from sglang.processes.scheduler.core import SchedulerCore
from unit.scheduler.fakes import ArithmeticExecutor, Caller, make_core, make_request, run_all, step

GREEDY_ADMISSION = {"init_new_token_ratio": 0.0, "min_new_token_ratio": 0.0}


def run_until_retraction(core: SchedulerCore, executor: ArithmeticExecutor, caller: Caller) -> None:
    for _ in range(200):
        if core.stats.retractions:
            return
        step(core, executor, caller)
    raise AssertionError("nobody was retracted")


def crowd(core: SchedulerCore, count: int, prompt: int = 10, **fields: Any) -> None:
    for number in range(count):
        core.add(make_request(f"r{number}", [number] * prompt, **{"max_new_tokens": 25, **fields}))


@pytest.mark.parametrize("page", [1, 4, 16])
def test_retracted_requests_finish_with_the_same_tokens(page: int) -> None:
    core = make_core(num_slots=64, page_size=page, **GREEDY_ADMISSION)
    crowd(core, 4, stream=True)
    caller = run_all(core)
    roomy = make_core(num_slots=1000, page_size=page)
    crowd(roomy, 4, stream=True)
    expected = run_all(roomy)
    assert sum(caller[f"r{n}"].retractions for n in range(4)) > 0
    for number in range(4):
        outcome = caller[f"r{number}"]
        assert outcome.tokens == expected[f"r{number}"].tokens
        assert outcome.chunks == list(range(1, 26)), "a token was reported twice or not at all"
        assert outcome.cached == 0
    assert core.memory.leak() is None
    assert core.memory.available == 64


def test_the_least_output_gives_way_ties_by_the_longer_prompt() -> None:
    core = make_core(num_slots=60, **GREEDY_ADMISSION)
    executor, caller = ArithmeticExecutor(60), Caller()
    core.add(make_request("old", [1] * 8, max_new_tokens=30))
    step(core, executor, caller)
    step(core, executor, caller)
    core.add(make_request("long", [2] * 14, max_new_tokens=12))
    core.add(make_request("short", [3] * 9, max_new_tokens=18))
    run_until_retraction(core, executor, caller)
    assert [request.rid for request in core.waiting] == ["long"]
    assert [request.rid for request in core.running.requests] == ["old", "short"]


def test_retraction_raises_the_new_token_ratio_and_rest_resets_it() -> None:
    core = make_core(num_slots=64, init_new_token_ratio=0.1, min_new_token_ratio=0.0, new_token_ratio_decay=0.01)
    executor, caller = ArithmeticExecutor(64), Caller()
    crowd(core, 4)
    run_until_retraction(core, executor, caller)
    kept = core.running.requests
    decoded = sum(len(request.output_ids) for request in kept) - len(kept)  # the step since then added one each
    expected = min(1.0, (decoded + 20 * len(kept)) / (25 * len(kept) + 1))
    assert core.ratio.value == pytest.approx(max(expected - 0.01, 0.0))
    run_all(core, executor, caller)
    core.next_batch()
    assert core.ratio.value == 0.1


def test_the_ratio_decays_with_every_decode_step_down_to_its_minimum() -> None:
    core = make_core(init_new_token_ratio=0.5, min_new_token_ratio=0.47, new_token_ratio_decay=0.01)
    executor, caller = ArithmeticExecutor(256), Caller()
    core.add(make_request("a", 5, max_new_tokens=20))
    step(core, executor, caller)
    values = []
    for _ in range(5):
        step(core, executor, caller)
        values.append(core.ratio.value)
    assert values == pytest.approx([0.49, 0.48, 0.47, 0.47, 0.47])


def test_cached_prefixes_go_before_anybody_is_retracted() -> None:
    core = make_core(num_slots=64, **GREEDY_ADMISSION)
    executor, caller = ArithmeticExecutor(64), Caller()
    core.add(make_request("old", [9] * 30))
    run_all(core, executor, caller)
    assert core.memory.cache.evictable_size == 37
    crowd(core, 2, max_new_tokens=20)
    run_all(core, executor, caller)
    assert core.stats.retractions == 0


def test_a_request_that_fills_the_whole_pool_gets_it() -> None:
    core = make_core(num_slots=64, page_size=16)
    crowd(core, 3)
    core.add(make_request("huge", 60, max_new_tokens=None, ignore_eos=True))
    caller = run_all(core)
    assert len(caller["huge"].tokens) == 5  # 60 + 5 tokens, the last one never written
    assert caller["huge"].reason == {"type": "length", "length": 5}


def test_a_half_computed_prompt_gives_way_before_a_running_request() -> None:
    core = make_core(num_slots=64, context_length=100, chunked_prefill_size=8, **GREEDY_ADMISSION)
    executor, caller = ArithmeticExecutor(64), Caller()
    core.add(make_request("runs", [1] * 20, max_new_tokens=40))
    while not len(core.running):
        step(core, executor, caller)
    core.add(make_request("long", [2] * 40, max_new_tokens=1))
    run_all(core, executor, caller)
    assert caller["runs"].retractions == 0
    assert len(caller["runs"].tokens) == 40
    assert caller["long"].reason == {"type": "length", "length": 1}


def test_the_last_request_is_aborted_when_even_it_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    core = make_core(num_slots=64)
    executor, caller = ArithmeticExecutor(64), Caller()
    core.add(make_request("a", 10, max_new_tokens=20))
    step(core, executor, caller)
    with monkeypatch.context() as patch:  # unreachable by honest means: admission plans for the whole request
        patch.setattr(core.memory, "extend_by_one", lambda rows, lens: None)
        patch.setattr(type(core.memory), "available", property(lambda self: 0))
        assert core.next_batch() is None
    caller.take(core)
    assert caller["a"].reason is not None
    assert caller["a"].reason["status_code"] == 500
    assert "memory" in caller["a"].reason["message"]
    assert core.is_idle
    assert core.memory.available == 64


# ------------------------------------------------------------------ priorities


def test_larger_priorities_go_first_and_missing_ones_last() -> None:
    core = make_core(enable_priority_scheduling=True)
    for rid, priority in (("none", None), ("low", -3), ("high", 7), ("zero", 0), ("high too", 7)):
        core.add(make_request(rid, 3, priority=priority))
    assert [request.rid for request in core.waiting] == ["high", "high too", "zero", "low", "none"]


def test_low_values_first_turns_the_order_round() -> None:
    core = make_core(enable_priority_scheduling=True, low_priority_first=True, default_priority=1)
    for rid, priority in (("none", None), ("two", 2), ("zero", 0)):
        core.add(make_request(rid, 3, priority=priority))
    assert [request.rid for request in core.waiting] == ["zero", "none", "two"]


def test_priorities_are_ignored_while_the_feature_is_off() -> None:
    core = make_core()
    core.add(make_request("a", 3, priority=1))
    core.add(make_request("b", 3, priority=5))
    assert [request.rid for request in core.waiting] == ["a", "b"]


@pytest.mark.parametrize(("gap", "preempts"), [(10, False), (11, True)])
def test_a_much_more_urgent_request_takes_a_running_ones_place(gap: int, preempts: bool) -> None:
    core = make_core(enable_priority_scheduling=True, max_running_requests=2)
    executor, caller = ArithmeticExecutor(256), Caller()
    core.add(make_request("worse", [1] * 5, priority=0, max_new_tokens=20))
    core.add(make_request("better", [2] * 5, priority=1, max_new_tokens=20))
    step(core, executor, caller)
    core.add(make_request("urgent", [3] * 5, priority=gap, max_new_tokens=20))
    step(core, executor, caller)
    assert sorted(r.rid for r in core.running.requests) == (["better", "urgent"] if preempts else ["better", "worse"])
    run_all(core, executor, caller)
    assert caller["worse"].retractions == int(preempts)
    roomy = make_core()
    roomy.add(make_request("worse", [1] * 5, max_new_tokens=20))
    assert caller["worse"].tokens == run_all(roomy)["worse"].tokens


def test_preemption_frees_memory_too_and_can_be_switched_off() -> None:
    for enabled in (True, False):
        core = make_core(
            num_slots=64,
            enable_priority_scheduling=True,
            enable_priority_preemption=enabled,
            init_new_token_ratio=1.0,
        )
        executor, caller = ArithmeticExecutor(64), Caller()
        core.add(make_request("low", [1] * 20, priority=0, max_new_tokens=30))
        step(core, executor, caller)
        core.add(make_request("high", [2] * 30, priority=50, max_new_tokens=20))
        step(core, executor, caller)
        assert [r.rid for r in core.running.requests] == (["high"] if enabled else ["low"])
        run_all(core, executor, caller)


def test_the_priority_policy_retracts_the_lowest_priority() -> None:
    core = make_core(num_slots=64, enable_priority_scheduling=True, retraction_policy="priority", **GREEDY_ADMISSION)
    executor, caller = ArithmeticExecutor(64), Caller()
    core.add(make_request("low", [1] * 10, priority=0, max_new_tokens=40))
    step(core, executor, caller)
    step(core, executor, caller)
    core.add(make_request("high", [2] * 10, priority=5, max_new_tokens=40))
    run_until_retraction(core, executor, caller)
    assert [r.rid for r in core.running.requests] == ["high"]
