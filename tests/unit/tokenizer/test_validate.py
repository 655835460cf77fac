"""What a request may be: refusals name the field, accepted forms unfold into one spec a prompt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang.ipc.errors import InvalidRequest, SchemaError, UnknownFieldError
from sglang.ipc.inputs import GenerateReqInput
from sglang.processes.tokenizer.lengths import fit
from sglang.processes.tokenizer.validate import (
    MAX_CHARS_PER_TOKEN,
    MAX_SEQUENCES,
    Plan,
    Rules,
    plan_request,
)
from unit.tokenizer.fake_scheduler import CONTEXT, VOCAB

RULES = Rules(vocab_size=VOCAB, context_length=CONTEXT)


def plan(rules: Rules = RULES, **fields: Any) -> Plan:
    return plan_request(GenerateReqInput(**fields), rules)


def refusal(rules: Rules = RULES, **fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        plan(rules, **fields)
    return caught.value


def test_a_plain_prompt_gets_the_defaults() -> None:
    result = plan(text="hi")
    (spec,) = result.prompts
    assert (result.n, result.is_batch, result.parent_rid) == (1, False, None)
    assert (spec.text, spec.input_ids, spec.params.max_new_tokens) == ("hi", None, 128)
    assert (spec.return_logprob, spec.logprob_start_len, spec.top_logprobs_num) == (False, -1, 0)
    assert len(spec.rid) == 32
    assert not spec.max_new_tokens_given


def test_null_is_absent_in_every_field() -> None:
    names = [name for name in GenerateReqInput.__dataclass_fields__ if name != "text"]
    assert len(plan(text="hi", **dict.fromkeys(names)).prompts) == 1


# ------------------------------------------------------------------ prompts


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({}, "text"),
        ({"text": 5}, "text"),
        ({"text": []}, "text"),
        ({"text": ["a", None]}, "text"),
        ({"text": "\ud800"}, "text"),
        ({"input_ids": []}, "input_ids"),
        ({"input_ids": [[]]}, "input_ids"),
        ({"input_ids": [[1, 2], []]}, "input_ids"),
        ({"input_ids": [-1]}, "-1"),
        ({"input_ids": [VOCAB]}, str(VOCAB)),
        ({"input_ids": [2**40]}, "input_ids"),
        ({"input_ids": [1.5]}, "1.5"),
        ({"input_ids": ["1"]}, "input_ids"),
        ({"input_ids": [True]}, "input_ids"),
        ({"input_ids": "12"}, "input_ids"),
        ({"input_ids": [1, [2]]}, "input_ids"),
        ({"input_ids": [[1], 2]}, "input_ids"),
        ({"text": "a", "input_ids": [[1]]}, "input_ids"),
        ({"text": ["a", "b"], "input_ids": [[1]]}, "input_ids"),
        ({"text": "a", "input_ids": [1], "input_embeds": [[0.5]]}, "input_embeds"),
        ({"input_embeds": [[0.5]]}, "input_embeds"),
    ],
)
def test_prompts_that_are_none(fields: dict[str, Any], part: str) -> None:
    assert part in str(refusal(**fields))


def test_ids_win_over_text_of_the_same_shape() -> None:
    (spec,) = plan(text="hi", input_ids=[7]).prompts
    assert (spec.text, spec.input_ids) == (None, [7])


def test_a_list_is_a_batch_even_with_one_prompt() -> None:
    assert plan(text=["a"]).is_batch
    assert plan(input_ids=[[1]]).is_batch
    assert not plan(input_ids=[1]).is_batch


def test_hopelessly_long_texts_are_not_tokenised() -> None:
    limit = CONTEXT * MAX_CHARS_PER_TOKEN
    assert plan(text="x" * limit).prompts[0].text == "x" * limit
    assert str(limit + 1) in str(refusal(text="x" * (limit + 1)))


def test_without_a_tokenizer_only_ids_are_read() -> None:
    bare = replace(RULES, has_tokenizer=False)
    assert "skip-tokenizer-init" in str(refusal(bare, text="hi"))
    for name, value in [("stop", "x"), ("stop_regex", "x"), ("min_new_tokens", 1)]:
        assert refusal(bare, input_ids=[1], sampling_params={name: value}).field == name
    assert plan(bare, input_ids=[1], sampling_params={"stop_token_ids": [3]}).prompts[0].params.stop_token_ids == [3]


# ------------------------------------------------------------------ batches


def test_shared_and_single_values_spread_over_a_batch() -> None:
    result = plan(
        text=["a", "b"],
        sampling_params=[{"temperature": 0}, {"max_new_tokens": 5}],
        return_logprob=[True, False],
        logprob_start_len=[0, None],
        top_logprobs_num=2,
        token_ids_logprob=[[1, 2], None],
        extra_key=["k", ""],
        cache_salt="s",
    )
    first, second = result.prompts
    assert first.params.is_greedy
    assert second.params.max_new_tokens == 5
    assert (first.max_new_tokens_given, second.max_new_tokens_given) == (False, True)
    assert (first.return_logprob, second.return_logprob) == (True, False)
    assert (first.logprob_start_len, second.logprob_start_len) == (0, -1)
    assert (first.top_logprobs_num, second.top_logprobs_num) == (2, 2)
    assert (first.token_ids_logprob, second.token_ids_logprob) == ([1, 2], None)
    assert (first.extra_key, second.extra_key, first.cache_salt) == ("k", None, "s")


@pytest.mark.parametrize(
    "name",
    ["sampling_params", "return_logprob", "logprob_start_len", "top_logprobs_num", "rid", "extra_key", "cache_salt"],
)
def test_lists_must_match_the_batch(name: str) -> None:
    values = {"sampling_params": {}, "return_logprob": True, "rid": "r", "extra_key": "k", "cache_salt": "s"}
    value = values.get(name, 0)
    assert name in str(refusal(text=["a", "b"], **{name: [value]}))
    assert name in str(refusal(text="a", **{name: [value]}))


@pytest.mark.parametrize("name", ["return_logprob", "logprob_start_len", "top_logprobs_num", "token_ids_logprob"])
def test_logprob_lists_do_not_go_with_several_samples(name: str) -> None:
    value = {"return_logprob": [True], "token_ids_logprob": [[1]]}.get(name, [0])
    assert name in str(refusal(text=["a"], sampling_params={"n": 2}, **{name: value}))


def test_flat_logprob_ids_are_shared_and_empty_is_none() -> None:
    result = plan(text=["a", "b"], token_ids_logprob=[5, 6])
    assert [spec.token_ids_logprob for spec in result.prompts] == [[5, 6], [5, 6]]
    assert plan(text="a", token_ids_logprob=[]).prompts[0].token_ids_logprob is None
    assert "token_ids_logprob" in str(refusal(text="a", token_ids_logprob=[-1]))
    assert str(VOCAB) in str(refusal(text="a", token_ids_logprob=[VOCAB]))


def test_n_must_agree_and_stay_within_bounds() -> None:
    assert refusal(text=["a", "b"], sampling_params=[{"n": 1}, {"n": 2}]).field == "n"
    assert plan(text=["a"] * 4, sampling_params={"n": 3}).n == 3
    too_many = refusal(text=["a"] * 2000, sampling_params={"n": 500})
    assert too_many.field == "n"
    assert str(MAX_SEQUENCES) in str(too_many)
    assert "text" in str(refusal(text=["a"] * (MAX_SEQUENCES + 1)))
    for n in (0, -2, 10**9, 2**63 - 1):
        assert refusal(text="a", sampling_params={"n": n}).field == "n"


# ------------------------------------------------------------------ names


def test_rids_of_callers_are_kept_and_numbered_in_a_batch() -> None:
    assert plan(text="a", rid="r").prompts[0].rid == "r"
    result = plan(text=["a", "b"], rid="r")
    assert ([spec.rid for spec in result.prompts], result.parent_rid) == (["r_0", "r_1"], "r")
    assert [spec.rid for spec in plan(text=["a", "b"], rid=["x", "y"]).prompts] == ["x", "y"]


def test_fresh_rids_differ() -> None:
    rids = [spec.rid for spec in plan(text=["a"] * 50).prompts]
    assert len(set(rids)) == 50


@pytest.mark.parametrize("rid", [["a", "a"], 5, "x" * 5000, "\udc00", [1, 2], [None, 3]])
def test_rids_that_are_none(rid: Any) -> None:
    assert "rid" in str(refusal(text=["a", "b"], rid=rid))


# ------------------------------------------------------------------ single fields


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("priority", 2**63),
        ("priority", 1.5),
        ("stream", "yes"),
        ("background", 1),
        ("return_text_in_logprobs", "true"),
        ("return_logprob", 1),
        ("logprob_start_len", -2),
        ("top_logprobs_num", -1),
        ("top_logprobs_num", VOCAB + 1),
        ("top_logprobs_num", True),
        ("token_ids_logprob", "5"),
        ("sampling_params", "hot"),
        ("routed_dp_rank", 1),
        ("data_parallel_rank", -1),
        ("extra_key", 5),
        ("lora_path", "adapter"),
        ("session_params", {"id": "s"}),
        ("custom_logit_processor", "code"),
        ("return_hidden_states", True),
        ("return_hidden_states", "last"),
        ("image_data", "http://127.0.0.1:9/x.png"),
        ("video_data", [None, "clip"]),
        ("audio_data", ["clip"]),
        ("max_thinking_tokens", 5),
    ],
)
def test_refusals_name_the_field(field: str, value: Any) -> None:
    error = refusal(text="a", **{field: value})
    assert field in str(error)
    assert len(str(error)) < 400


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("image_data", []),
        ("image_data", [[], []]),
        ("return_hidden_states", False),
        ("custom_logit_processor", ""),
        ("lora_path", [None]),
        ("routed_dp_rank", 0),
        ("session_id", "tag"),
        ("priority", -(2**63)),
        ("modalities", ["image"]),
    ],
)
def test_values_that_ask_for_nothing_are_fine(field: str, value: Any) -> None:
    assert len(plan(text="a", **{field: value}).prompts) == 1


def test_sampling_errors_keep_their_kind() -> None:
    assert isinstance(refusal(text="a", sampling_params={"foo": 1}), UnknownFieldError)
    assert isinstance(refusal(text="a", sampling_params={"temperature": "hot"}), SchemaError)
    assert refusal(text="a", sampling_params={"stop": [""]}).field == "stop"
    assert "stop_regex" in str(refusal(text="a", sampling_params={"stop_regex": "("}))
    assert "stop" in str(refusal(text="a", sampling_params={"stop": "\ud800"}))


def test_server_preferences_lie_under_the_request() -> None:
    rules = replace(RULES, preferred_sampling_params={"temperature": 0.5, "max_new_tokens": 7}, max_new_tokens_limit=5)
    (spec,) = plan(rules, text="a", sampling_params={"temperature": 0.25}).prompts
    assert (spec.params.temperature, spec.params.max_new_tokens) == (0.25, 5)
    assert not spec.max_new_tokens_given


# ------------------------------------------------------------------ lengths


def fitted(count: int, rules: Rules = RULES, **params: Any) -> tuple[int, int | None]:
    (spec,) = plan(rules, input_ids=[1], sampling_params=params).prompts
    ids, fitting = fit(spec, [1] * count, rules)
    return len(ids), fitting.max_new_tokens


def test_the_whole_context_can_be_used() -> None:
    assert fitted(CONTEXT - 1, max_new_tokens=1) == (CONTEXT - 1, 1)
    assert fitted(10, max_new_tokens=CONTEXT - 10) == (10, CONTEXT - 10)


def test_defaults_are_clipped_but_wishes_refused() -> None:
    assert fitted(50) == (50, CONTEXT - 50)
    assert fitted(50, max_new_tokens=None) == (50, CONTEXT - 50)
    with pytest.raises(InvalidRequest, match=rf"{CONTEXT} .*{50 + 15} .*50 .*15"):
        fitted(50, max_new_tokens=15)


@pytest.mark.parametrize("count", [CONTEXT, 10 * CONTEXT])
def test_a_prompt_that_fills_the_context_is_refused_with_both_numbers(count: int) -> None:
    with pytest.raises(InvalidRequest, match=rf"{count} tokens.*{CONTEXT} tokens"):
        fitted(count)


def test_auto_truncate_cuts_prompt_and_wish() -> None:
    rules = replace(RULES, allow_auto_truncate=True)
    assert fitted(10 * CONTEXT, rules, max_new_tokens=30, min_new_tokens=5) == (CONTEXT - 1, 1)
    assert fitted(50, rules, max_new_tokens=30) == (50, 14)


def test_an_empty_prompt_and_a_start_behind_the_prompt_are_refused() -> None:
    (spec,) = plan(text="", return_logprob=True, logprob_start_len=4).prompts
    with pytest.raises(InvalidRequest, match="empty"):
        fit(spec, [], RULES)
    with pytest.raises(InvalidRequest, match="logprob_start_len"):
        fit(spec, [1, 2, 3], RULES)
    assert fit(spec, [1, 2, 3, 4], RULES)[0] == [1, 2, 3, 4]


# ------------------------------------------------------------------ anything at all

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = list(GenerateReqInput.__dataclass_fields__)


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=5), st.booleans())
def test_any_value_in_any_field_is_planned_or_refused(fields: dict[str, Any], with_prompt: bool) -> None:
    if with_prompt:
        fields["text"] = "hi"
    try:
        prompts = plan(**fields).prompts
    except InvalidRequest:
        return
    assert prompts
