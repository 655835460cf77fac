"""How requests end, what they report on the way, and the shape of their logprobs."""

from __future__ import annotations

from typing import Any

import pytest

from sglang.executor.batch import ForwardBatch, StepResult
from sglang.ipc.errors import InvalidRequest
from sglang.ipc.messages import DecodeSpec
from unit.scheduler.fakes import ArithmeticExecutor, Caller, Outcome, make_core, make_request, run_all


class Script:
    """An executor that says given tokens, one list for every request (by its seed)."""

    def __init__(self, *answers: list[int], invalid_at: int = -1) -> None:
        self.num_slots = 256
        self.answers = answers
        self.invalid_at = invalid_at
        self.stop_ids: frozenset[int] = frozenset()

    def run(self, batch: ForwardBatch) -> StepResult:
        for sample in batch.sample:
            self.stop_ids = sample.stop_ids
            assert sample.position == len(sample.output_ids)
        return StepResult(
            tokens=[self.answers[sample.seed][sample.position] for sample in batch.sample],
            invalid=[sample.position == self.invalid_at for sample in batch.sample] if self.invalid_at >= 0 else None,
        )


class EndsWith:
    """A text watch over token numbers: stops when the last tokens read like the stop string."""

    def __init__(self, spec: DecodeSpec) -> None:
        self.spec = spec
        self.text = ""

    def push(self, token_ids: list[int]) -> str | None:
        self.text += "".join(f"{token}," for token in token_ids)
        if "13," in self.text:
            raise ValueError("unlucky text")
        return next((stop for stop in self.spec.stop + self.spec.stop_regex if stop in self.text), None)


def say(answer: list[int], prompt: int = 4, *, invalid_at: int = -1, core: Any = None, **fields: Any) -> Outcome:
    core = core or make_core(eos_token_ids=frozenset({2, 3}), text_watch_factory=EndsWith)
    core.add(make_request("r", prompt, **{"seed": 0, "max_new_tokens": len(answer), **fields}))
    script = Script(answer, invalid_at=invalid_at)
    return run_all(core, script)["r"]  # type: ignore[arg-type]


def test_eos_is_the_last_token_and_is_counted() -> None:
    outcome = say([5, 6, 2, 7])
    assert outcome.tokens == [5, 6, 2]
    assert outcome.reason == {"type": "stop", "matched": 2}


def test_length() -> None:
    outcome = say([5, 6, 7])
    assert (outcome.tokens, outcome.reason) == ([5, 6, 7], {"type": "length", "length": 3})


def test_stop_token_ids_stop_and_ignore_eos_disables_them_too() -> None:
    assert say([5, 6, 7], stop_token_ids=[6]).reason == {"type": "stop", "matched": 6}
    assert say([5, 6, 2, 7], stop_token_ids=[6], ignore_eos=True).reason == {"type": "length", "length": 4}


def test_a_stop_string_that_is_a_special_token_stops_even_under_ignore_eos() -> None:
    for ignore_eos in (False, True):
        outcome = say([5, 2, 7], stop_special_ids={2: "<end>"}, ignore_eos=ignore_eos)
        assert (outcome.tokens, outcome.reason) == ([5, 2], {"type": "stop", "matched": "<end>"})


def test_stop_strings_come_before_stop_ids_and_both_before_the_length() -> None:
    assert say([5, 2], stop=["5,2"]).reason == {"type": "stop", "matched": "5,2"}
    assert say([5, 2], stop=["x"]).reason == {"type": "stop", "matched": 2}
    assert say([5, 6], stop_regex=["6"]).reason == {"type": "stop", "matched": "6"}


def test_repaired_nan_logits_end_the_request_as_if_it_had_stopped() -> None:
    outcome = say([5, 6, 7], invalid_at=1, stop=["6"])
    assert outcome.tokens == [5, 2]
    assert outcome.reason == {"type": "stop", "matched": "NaN happened"}


def test_an_error_while_text_is_checked_ends_only_that_request() -> None:
    core = make_core(text_watch_factory=EndsWith)
    core.add(make_request("bad", 3, seed=0, stop=["x"], max_new_tokens=3))
    core.add(make_request("good", 3, seed=1, stop=["x"], max_new_tokens=3))
    caller = run_all(core, Script([1, 13, 4], [1, 5, 4]))  # type: ignore[arg-type]
    assert caller["bad"].reason is not None
    assert caller["bad"].reason["status_code"] == 500
    assert "ValueError" in (message := caller["bad"].reason["message"]) and "unlucky" not in message
    assert caller["good"].reason == {"type": "length", "length": 3}


def test_a_stop_that_cannot_be_used_is_refused() -> None:
    def refuse(spec: DecodeSpec) -> EndsWith:
        raise InvalidRequest("stop_regex: no")

    outcome = say([1], core=make_core(text_watch_factory=refuse), stop_regex=["("])
    assert outcome.reason is not None
    assert (outcome.reason["status_code"], outcome.reason["message"]) == (400, "stop_regex: no")


def test_the_sampler_hears_of_eos_and_stop_ids_for_min_new_tokens() -> None:
    core = make_core(eos_token_ids=frozenset({2, 3}))
    core.add(make_request("r", 3, seed=0, stop_token_ids=[9], max_new_tokens=1))
    script = Script([5])
    run_all(core, script)  # type: ignore[arg-type]
    assert script.stop_ids == {2, 3, 9}


# ------------------------------------------------------------------ lengths


@pytest.mark.parametrize("max_new_tokens", [200, None])
def test_the_budget_is_clipped_to_the_context(max_new_tokens: int | None) -> None:
    core = make_core(context_length=64)
    core.add(make_request("r", 54, max_new_tokens=max_new_tokens, min_new_tokens=20 if max_new_tokens else 0))
    outcome = run_all(core)["r"]
    assert len(outcome.tokens) == 10
    assert outcome.reason == {"type": "length", "length": 10}


@pytest.mark.parametrize("length", [50, 62, 63])
def test_a_prompt_up_to_context_minus_one_is_fully_used(length: int) -> None:
    core = make_core(context_length=64)
    core.add(make_request("r", length, max_new_tokens=1))
    outcome = run_all(core)["r"]
    assert (outcome.prompt_tokens, len(outcome.tokens)) == (length, 1)
    assert core.memory.cache.evictable_size == length


@pytest.mark.parametrize(
    ("length", "slots", "words"), [(64, 256, "64"), (200, 256, "64"), (40, 32, "32"), (0, 32, "no tok")]
)
def test_prompts_that_do_not_fit_are_refused_with_the_numbers(length: int, slots: int, words: str) -> None:
    core = make_core(context_length=64, num_slots=slots)
    core.add(make_request("r", length))
    outcome = run_all(core)["r"]
    assert outcome.dropped
    assert outcome.reason is not None
    assert outcome.reason["status_code"] == 400
    assert words in outcome.reason["message"]
    assert core.is_idle


def test_a_prompt_that_fills_the_pool_gets_one_token() -> None:
    core = make_core(context_length=64, num_slots=32)
    core.add(make_request("r", 32))
    assert run_all(core)["r"].reason == {"type": "length", "length": 1}


def test_zero_new_tokens_compute_and_cache_the_prompt_only() -> None:
    core = make_core()
    executor, caller = ArithmeticExecutor(256), Caller()
    core.add(make_request("r", 20, max_new_tokens=0))
    run_all(core, executor, caller)
    assert (caller["r"].tokens, caller["r"].reason) == ([], {"type": "length", "length": 0})
    assert caller["r"].prompt_tokens == 20
    assert core.memory.cache.evictable_size == 20


# ------------------------------------------------------------------ when outputs are sent


@pytest.mark.parametrize(
    ("fields", "chunks"),
    [
        ({"stream": True}, [1, 2, 3, 4, 5, 6, 7]),
        ({"stream": True, "stream_interval": 3}, [1, 4, 7]),
        ({"stream": True, "stream_interval": 4}, [1, 5, 7]),
        ({}, [5, 7]),
        ({"stream_interval": 2}, [5, 7]),
    ],
)
def test_outputs_come_at_intervals_and_first_and_last_always(fields: dict[str, Any], chunks: list[int]) -> None:
    core = make_core(silent_interval=5)
    core.add(make_request("r", 4, max_new_tokens=7, **fields))
    assert run_all(core)["r"].chunks == chunks


def test_the_servers_stream_interval_is_the_default() -> None:
    core = make_core(stream_interval=3)
    core.add(make_request("r", 4, max_new_tokens=7, stream=True))
    assert run_all(core)["r"].chunks == [1, 4, 7]


# ------------------------------------------------------------------ logprobs


def scored(chunk: int | None = None, **fields: Any) -> Outcome:
    core = make_core(chunked_prefill_size=chunk)
    core.add(make_request("r", 9, **{"return_logprob": True, "max_new_tokens": 3, **fields}))
    return run_all(core)["r"]


def test_prompt_logprobs_begin_with_a_token_without_value() -> None:
    delta = scored(logprob_start_len=2, top_logprobs_num=2, token_ids_logprob=[4, 1]).logprobs
    prompt = [(i * 7 + 3) % 97 for i in range(9)]
    assert delta.input_idx == prompt[2:]
    assert delta.input_val[0] is None
    assert all(value is not None for value in delta.input_val[1:])
    assert delta.input_top_val[0] is delta.input_top_idx[0] is delta.input_ids_val[0] is delta.input_ids_idx[0] is None
    assert [len(top or []) for top in delta.input_top_idx] == [0] + [2] * 6
    assert delta.input_ids_idx[1:] == [[4, 1]] * 6
    assert len(delta.output_val) == len(delta.output_idx) == len(delta.output_top_val) == len(delta.output_ids_val) == 3


@pytest.mark.parametrize("start", [0, 3, 7, 8])
@pytest.mark.parametrize("chunk", [1, 2, 3, 8])
def test_chunks_do_not_change_prompt_logprobs(start: int, chunk: int) -> None:
    whole = scored(logprob_start_len=start, top_logprobs_num=1)
    assert scored(chunk, logprob_start_len=start, top_logprobs_num=1) == whole
    assert len(whole.logprobs.input_val) == 9 - start


@pytest.mark.parametrize("start", [-1, 9])
def test_no_prompt_logprobs_without_a_start_or_from_the_end(start: int) -> None:
    delta = scored(logprob_start_len=start, top_logprobs_num=1).logprobs
    assert delta.input_val == delta.input_idx == delta.input_top_val == []
    assert len(delta.output_val) == 3


def test_zero_tokens_report_the_alternatives_of_the_first_position() -> None:
    delta = scored(max_new_tokens=0, logprob_start_len=0, top_logprobs_num=2).logprobs
    assert len(delta.input_val) == 9
    assert (delta.output_val, delta.output_idx) == ([], [])
    assert len(delta.output_top_val) == 1


def test_each_token_keeps_its_own_logprobs_whatever_the_interval() -> None:
    by_one = scored(stream=True, top_logprobs_num=2, max_new_tokens=7)
    by_four = scored(stream=True, stream_interval=4, top_logprobs_num=2, max_new_tokens=7)
    assert by_one.logprobs == by_four.logprobs
    assert by_one.logprobs.output_idx == by_one.tokens
    assert len({tuple(top or ()) for top in by_one.logprobs.output_top_val}) > 1
