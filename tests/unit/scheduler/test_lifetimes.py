"""Thousands of random lifetimes: slots, locks, sizes, fairness and tokens hold whatever happens."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from unit.scheduler.lifetimes import Trace


@pytest.mark.parametrize("seed", range(100))
def test_random_trace(seed: int) -> None:
    rng = random.Random(seed)
    trace = Trace(rng)
    for _ in range(200):
        event = rng.random()
        if event < 0.15:
            trace.arrive()
        elif event < 0.16:
            trace.abort()
        elif event < 0.17:
            trace.flush()
        elif event < 0.175:
            trace.pause()
        elif event < 0.22:
            trace.core.resume()
        else:
            trace.turn()
    trace.finish()


class Lifetimes(RuleBasedStateMachine):
    """The same events chosen by hypothesis, which shrinks a failure to a short story."""

    @initialize(seed=st.integers(0, 2**32))
    def start(self, seed: int) -> None:
        self.trace = Trace(random.Random(seed))

    @rule()
    def arrive(self) -> None:
        self.trace.arrive()

    @rule(turns=st.integers(1, 5))
    def turn(self, turns: int) -> None:
        for _ in range(turns):
            self.trace.turn()

    @rule()
    def abort(self) -> None:
        self.trace.abort()

    @rule()
    def flush(self) -> None:
        self.trace.flush()

    @precondition(lambda self: not self.trace.core.paused)
    @rule()
    def pause(self) -> None:
        self.trace.pause()

    @precondition(lambda self: self.trace.core.paused)
    @rule()
    def resume(self) -> None:
        self.trace.core.resume()

    def teardown(self) -> None:
        if hasattr(self, "trace"):
            self.trace.finish()


Lifetimes.TestCase.settings = settings(
    max_examples=120, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestLifetimes = Lifetimes.TestCase
