"""Grammars in the scheduler: waiting for one, masks, forced tokens, ends."""

from __future__ import annotations

from typing import Any

import pytest

from sglang.executor.batch import ForwardBatch
from sglang.grammar.spec import GrammarSpec
from sglang.processes.scheduler.core import SchedulerCore
from unit.scheduler.fake_grammars import EOS, FakeGrammars, FakeMatcher
from unit.scheduler.fakes import VOCAB, ArithmeticExecutor, Caller, make_core, make_request, run_all, step


def grammar_core(*, waits: bool = False, **settings: Any) -> tuple[SchedulerCore, FakeGrammars]:
    grammars = FakeGrammars(VOCAB, waits=waits)
    core = make_core(eos_token_ids=frozenset([EOS]), grammars=grammars, **settings)
    return core, grammars


def follows(name: str, tokens: list[int]) -> bool:
    matcher = FakeMatcher(name, VOCAB)
    return all(matcher.accept(token) for token in tokens)


class CountingExecutor(ArithmeticExecutor):
    """Remembers the query lengths of every step."""

    def __init__(self, num_slots: int) -> None:
        super().__init__(num_slots)
        self.lengths: list[list[int]] = []

    def run(self, batch: ForwardBatch) -> Any:
        self.lengths.append(batch.query_lens.tolist())
        return super().run(batch)


@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
def test_outputs_follow_the_grammar(name: str) -> None:
    core, _ = grammar_core()
    core.add(make_request("r", 5, regex=name, max_new_tokens=40))
    core.add(make_request("free", 5, max_new_tokens=40))
    outcome = run_all(core)["r"]
    assert follows(name, outcome.tokens)
    assert outcome.reason in ({"type": "length", "length": 40}, {"type": "stop", "matched": EOS})


@pytest.mark.parametrize("page_size", [1, 4])
def test_forced_tokens_take_no_step_and_change_nothing(page_size: int) -> None:
    executor = CountingExecutor(256)
    core, _ = grammar_core(page_size=page_size)
    core.add(make_request("r", 5, regex="a", max_new_tokens=40, ignore_eos=True))
    core.add(make_request("s", 9, regex="b", max_new_tokens=40, ignore_eos=True))
    caller = run_all(core, executor)
    assert any(length > 1 for lengths in executor.lengths[2:] for length in lengths), "nothing was forced"
    assert len(executor.lengths) < 40
    for rid, prompt, name in (("r", 5, "a"), ("s", 9, "b")):
        alone, _ = grammar_core()
        alone.add(make_request(rid, prompt, regex=name, max_new_tokens=40, ignore_eos=True, return_logprob=True))
        slow = CountingExecutor(256)
        assert run_all(alone, slow)[rid].tokens == caller[rid].tokens
        assert all(lengths == [1] for lengths in slow.lengths[1:]), "logprobs of forced tokens come from steps"


def test_forced_tokens_stream_in_order_and_count() -> None:
    core, _ = grammar_core()
    core.add(make_request("r", 5, regex="a", max_new_tokens=30, stream=True, ignore_eos=True))
    outcome = run_all(core)["r"]
    assert outcome.chunks[-1] == len(outcome.tokens)
    assert outcome.chunks == sorted(set(outcome.chunks))


def test_a_forced_token_can_be_the_last_one_allowed() -> None:
    for budget in range(1, 12):
        core, _ = grammar_core()
        core.add(make_request("r", 5, regex="a", max_new_tokens=budget, ignore_eos=True))
        outcome = run_all(core)["r"]
        assert (len(outcome.tokens), outcome.reason) == (budget, {"type": "length", "length": budget})


def test_a_stop_token_that_is_forced_stops() -> None:
    matcher = FakeMatcher("a", VOCAB)
    core, _ = grammar_core()
    core.add(make_request("r", 5, regex="a", max_new_tokens=40, ignore_eos=True))
    tokens = run_all(core)["r"].tokens
    forced = next(
        i for i, token in enumerate(tokens) if (i and matcher.choices() == [token]) or not matcher.accept(token)
    )
    core, _ = grammar_core()
    core.add(make_request("r", 5, regex="a", max_new_tokens=40, stop_token_ids=[tokens[forced]]))
    outcome = run_all(core)["r"]
    assert outcome.reason == {"type": "stop", "matched": tokens[forced]}
    assert outcome.tokens == tokens[: tokens.index(tokens[forced]) + 1]


def test_others_run_while_a_grammar_compiles() -> None:
    core, grammars = grammar_core(waits=True)
    executor, caller = ArithmeticExecutor(256), Caller()
    core.add(make_request("held", 5, regex="a", max_new_tokens=6, ignore_eos=True))
    core.add(make_request("free", 5, max_new_tokens=6))
    assert core.load()["queues"]["grammar"] == 1
    while step(core, executor, caller):
        pass
    assert len(caller["free"].tokens) == 6
    assert (caller["held"].tokens, core.is_idle) == ([], False)
    assert core.next_deadline() is not None, "an idle scheduler must look again soon"
    grammars.finish(GrammarSpec("regex", "a"))
    run_all(core, executor, caller)
    assert follows("a", caller["held"].tokens)
    assert core.load()["queues"]["grammar"] == 0


@pytest.mark.parametrize("waits", [True, False])
def test_a_refused_grammar_is_a_400_and_nothing_runs(waits: bool) -> None:
    core, grammars = grammar_core(waits=waits)
    core.add(make_request("r", 5, regex="bad"))
    if waits:
        grammars.finish(GrammarSpec("regex", "bad"))
    executor, caller = ArithmeticExecutor(256), Caller()
    assert not step(core, executor, caller)
    assert caller["r"].dropped
    assert caller["r"].reason == {
        "type": "abort", "message": "regex: is bad", "status_code": 400, "err_type": "BadRequestError"
    }  # fmt: skip
    assert (core.is_idle, executor.steps) == (True, 0)


def test_a_request_can_be_aborted_while_its_grammar_compiles() -> None:
    core, grammars = grammar_core(waits=True)
    caller = Caller()
    core.add(make_request("r", 5, regex="a"))
    core.abort("r")
    caller.take(core)
    assert (caller["r"].dropped, core.is_idle) == (True, True)
    grammars.finish(GrammarSpec("regex", "a"))
    assert not step(core, ArithmeticExecutor(256), caller)


def test_waiting_for_a_grammar_counts_as_waiting() -> None:
    now = [0.0]
    core, _ = grammar_core(waits=True, clock=lambda: now[0], waiting_timeout=5.0)
    caller = Caller()
    core.add(make_request("r", 5, regex="a"))
    now[0] = 6.0
    step(core, ArithmeticExecutor(256), caller)
    reason = caller["r"].reason
    assert reason is not None
    assert reason["status_code"] == 503


def test_a_full_queue_counts_held_requests() -> None:
    core, _ = grammar_core(waits=True, max_queued_requests=1)
    caller = Caller()
    core.add(make_request("a", 5, regex="a"))
    core.add(make_request("b", 5, regex="b"))
    caller.take(core)
    reason = caller["b"].reason
    assert reason is not None
    assert reason["status_code"] == 503


def test_without_a_source_grammars_are_refused() -> None:
    core, caller = make_core(), Caller()
    core.add(make_request("r", 5, regex="a"))
    caller.take(core)
    reason = caller["r"].reason
    assert reason is not None
    assert reason["status_code"] == 400


def test_a_grammar_waits_for_the_end_of_thinking() -> None:
    core, _ = grammar_core()
    free = run_all_tokens(make_core(eos_token_ids=frozenset([EOS])), max_new_tokens=4, ignore_eos=True)
    tokens = run_all_tokens(core, regex="a", max_new_tokens=30, ignore_eos=True, think_end_ids=free[1:3])
    assert tokens[:3] == free[:3], "thinking is free"
    assert follows("a", tokens[3:])
    assert len(tokens) == 30


def run_all_tokens(core: SchedulerCore, **fields: Any) -> list[int]:
    core.add(make_request("r", 5, **fields))
    return run_all(core)["r"].tokens
