"""Aborts, limits, timeouts, pause, flush, health checks, the load record."""

from __future__ import annotations

from typing import Any

import pytest

from sglang.ipc.errors import InvalidRequest
from sglang.ipc.messages import HealthCheckOutput
from unit.scheduler.fakes import ArithmeticExecutor, Caller, make_core, make_request, run_all, step

IN_QUEUE = {"type": "abort", "message": "Abort in waiting queue"}
ABORTED = {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}


class Bench:
    """A core with its executor, caller and clock."""

    def __init__(self, **settings: Any) -> None:
        self.now = 0.0
        self.core = make_core(clock=lambda: self.now, **settings)
        self.executor = ArithmeticExecutor(self.core.config.num_slots)
        self.caller = Caller()

    def add(self, rid: str, prompt: list[int] | int = 5, **fields: Any) -> None:
        self.core.add(make_request(rid, prompt, **{"max_new_tokens": 20, **fields}))

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            step(self.core, self.executor, self.caller)

    def finish(self) -> None:
        run_all(self.core, self.executor, self.caller)


def test_waiting_requests_are_dropped_at_once() -> None:
    bench = Bench()
    bench.add("r")
    bench.core.abort("r")
    bench.caller.take(bench.core)
    assert (bench.caller["r"].dropped, bench.caller["r"].reason) == (True, IN_QUEUE)
    assert bench.core.is_idle


def test_running_requests_end_without_another_step_and_keep_what_they_have() -> None:
    bench = Bench()
    bench.add("r")
    bench.step(3)
    bench.core.abort("r")
    assert bench.core.next_batch() is None
    bench.caller.take(bench.core)
    assert (len(bench.caller["r"].tokens), bench.caller["r"].reason) == (3, ABORTED)
    assert bench.core.memory.used == 0
    assert bench.core.memory.cache.evictable_size == 5 + 2


def test_an_abort_during_a_step_takes_effect_when_it_is_settled() -> None:
    bench = Bench()
    bench.add("r")
    batch = bench.core.next_batch()
    assert batch is not None
    bench.core.abort("r")
    bench.core.settle(batch, bench.executor.run(batch))
    bench.caller.take(bench.core)
    assert (len(bench.caller["r"].tokens), bench.caller["r"].reason) == (1, ABORTED)
    assert bench.core.is_idle


def test_half_prefilled_requests_can_be_aborted() -> None:
    bench = Bench(chunked_prefill_size=4)
    bench.add("r", 20)
    bench.step()
    bench.core.abort("r")
    bench.step()
    assert bench.caller["r"].reason == ABORTED
    assert bench.core.memory.cache.evictable_size == 4
    assert bench.core.is_idle


def test_a_rid_is_matched_exactly_and_unknown_ones_are_ignored() -> None:
    bench = Bench()
    bench.add("abc")
    bench.add("ab")
    for rid in ("a", "abcd", "", "ab"):
        bench.core.abort(rid)
    bench.finish()
    assert bench.caller["ab"].reason == IN_QUEUE
    assert bench.caller["abc"].reason == {"type": "length", "length": 20}


def test_abort_all() -> None:
    bench = Bench(max_running_requests=1)
    bench.add("runs")
    bench.add("waits")
    bench.step(2)
    bench.core.abort(abort_all=True)
    bench.step()
    assert (bench.caller["runs"].reason, bench.caller["waits"].reason) == (ABORTED, IN_QUEUE)


def test_a_retracted_request_that_is_aborted_reports_its_text() -> None:
    bench = Bench()
    bench.add("r")
    bench.step(3)
    bench.core.pause("retract")
    bench.core.abort("r")
    bench.caller.take(bench.core)
    outcome = bench.caller["r"]
    assert (outcome.dropped, len(outcome.tokens), outcome.reason) == (False, 3, IN_QUEUE)


def test_a_thousand_dropped_streams_leave_nothing_behind() -> None:
    bench = Bench(num_slots=64)
    for number in range(1000):
        bench.add(str(number), [number % 90] * (1 + number % 20), stream=True)
        bench.step(number % 4)
        bench.core.abort(str(number))
    bench.step()
    assert bench.core.is_idle
    assert bench.core.memory.available == 64
    bench.add("after")
    bench.finish()
    assert len(bench.caller["after"].tokens) == 20


def test_a_rid_in_use_is_not_taken_twice() -> None:
    bench = Bench()
    bench.add("r")
    bench.add("r")
    bench.finish()
    assert bench.caller["r"].ends == 1


# ------------------------------------------------------------------ limits and timeouts


def test_a_full_queue_refuses_newcomers() -> None:
    bench = Bench(max_queued_requests=1, max_running_requests=1)
    bench.add("runs")
    bench.step()
    bench.add("waits")
    bench.add("refused")
    bench.finish()
    reason = bench.caller["refused"].reason
    assert reason is not None
    assert reason["status_code"] == 503
    assert "queue is full" in reason["message"]
    assert bench.caller["waits"].reason == {"type": "length", "length": 20}


def test_with_priorities_the_worst_waiting_request_makes_place() -> None:
    bench = Bench(max_queued_requests=2, enable_priority_scheduling=True)
    for rid, priority in (("three", 3), ("one", 1), ("two", 2), ("zero", 0)):
        bench.add(rid, priority=priority)
    bench.finish()
    refused = {rid for rid, o in bench.caller.outcomes.items() if o.reason and o.reason.get("status_code") == 503}
    assert refused == {"one", "zero"}


def test_priorities_can_be_refused_while_the_feature_is_off() -> None:
    bench = Bench(abort_on_priority_when_disabled=True)
    bench.add("with", priority=1)
    bench.add("without")
    bench.finish()
    assert bench.caller["with"].reason is not None
    assert bench.caller["with"].reason["status_code"] == 503
    assert bench.caller["without"].reason == {"type": "length", "length": 20}


def test_waiting_and_running_too_long_end_with_503() -> None:
    bench = Bench(max_running_requests=1, waiting_timeout=5.0, running_timeout=9.0)
    bench.add("runs")
    bench.step()
    bench.now = 2.0
    bench.add("waits")
    assert bench.core.next_deadline() == 7.0
    bench.now = 6.9
    bench.step()
    assert "waits" not in bench.caller.outcomes
    bench.now = 7.0
    bench.step()
    assert bench.core.next_deadline() == 9.0
    bench.now = 9.0
    bench.step()
    for rid in ("waits", "runs"):
        reason = bench.caller[rid].reason
        assert reason is not None
        assert reason["status_code"] == 503
    assert bench.core.is_idle


# ------------------------------------------------------------------ pause, flush, health, load


@pytest.mark.parametrize("mode", ["retract", "in_place"])
def test_pause_and_resume_change_no_token(mode: str) -> None:
    plain, paused = Bench(), Bench()
    for bench in (plain, paused):
        bench.add("r")
        bench.step(4)
    paused.core.pause(mode)
    paused.add("new")
    assert paused.core.next_batch() is None
    assert paused.core.memory.used == (0 if mode == "retract" else 5 + 3)
    assert paused.core.flush_cache() is (mode == "retract")
    paused.core.resume()
    plain.finish()
    paused.finish()
    assert paused.caller["r"].tokens == plain.caller["r"].tokens
    assert paused.caller["r"].retractions == int(mode == "retract")
    assert paused.caller["new"].reason == {"type": "length", "length": 20}


def test_pause_abort_ends_everything_and_newcomers_wait() -> None:
    bench = Bench(max_running_requests=1)
    bench.add("runs")
    bench.add("waits")
    bench.step(2)
    bench.core.pause("abort")
    bench.caller.take(bench.core)
    assert (bench.caller["runs"].reason, bench.caller["waits"].reason) == (ABORTED, IN_QUEUE)
    bench.add("new")
    assert bench.core.next_batch() is None
    bench.core.resume()
    bench.finish()
    assert bench.caller["new"].reason == {"type": "length", "length": 20}


def test_unknown_pause_modes_are_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"'gently'.*abort, retract, in_place"):
        Bench().core.pause("gently")


def test_flush_only_when_idle() -> None:
    bench = Bench()
    bench.add("r")
    assert not bench.core.flush_cache()
    bench.step(2)
    assert not bench.core.flush_cache()
    bench.finish()
    assert bench.core.memory.cache.evictable_size == 24
    assert bench.core.flush_cache()
    assert bench.core.memory.cache.evictable_size == 0
    assert bench.core.memory.slots.free_slots == 256


def test_a_leak_is_reported_and_healed_at_rest(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.core.memory.slots.take(3)
    bench.core.next_batch()
    assert "3 of 256 slots" in caplog.text
    assert bench.core.memory.leak() is None


def test_health_checks_run_when_idle_and_are_answered_at_once_when_busy() -> None:
    bench = Bench()
    bench.add("HEALTH_1", [0], max_new_tokens=1, is_health_check=True)
    bench.finish()
    assert bench.caller["HEALTH_1"].reason == {"type": "length", "length": 1}
    bench.add("r")
    bench.add("HEALTH_2", [0], max_new_tokens=1, is_health_check=True)
    bench.finish()
    assert bench.caller.others == [HealthCheckOutput(rid="HEALTH_2")]
    bench.core.pause("in_place")
    bench.add("HEALTH_3", [0], max_new_tokens=1, is_health_check=True)
    bench.caller.take(bench.core)
    assert len(bench.caller.others) == 1
    assert bench.core.is_idle


def test_the_load_record_counts() -> None:
    bench = Bench(max_running_requests=1, stats_interval=4)
    bench.add("cached", 10, max_new_tokens=1)
    bench.finish()
    bench.add("runs", 11)
    bench.add("waits", 30)
    for _ in range(9):
        bench.now += 0.5
        bench.step()
    load = bench.core.load()
    assert (load["num_running_reqs"], load["num_waiting_reqs"], load["num_waiting_uncached_tokens"]) == (1, 1, 30)
    assert load["num_used_tokens"] == 11 + 8
    assert load["num_total_tokens"] == 19 + 30
    assert load["token_usage"] == round(19 / 256, 4)
    assert load["max_total_num_tokens"] == 256
    assert load["total_prefill_uncached_tokens"] == 10 + 1
    assert load["cache_hit_rate"] == round(10 / 21, 4)
    assert load["gen_throughput"] == 2.0
    assert load["decode_moments"][:2] == [8.0, 8.0]
    assert load["queues"]["waiting"] == 1
