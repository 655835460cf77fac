"""What ``sampling_params`` accepts, and how it refuses."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang.ipc.errors import InvalidRequest, SchemaError, UnknownFieldError
from sglang.ipc.sampling_params import MAX_N, READERS, TOP_K_ALL, SamplingParams, parse_sampling_params

VOCAB = 1000


def parse(raw: Any, **options: Any) -> SamplingParams:
    return parse_sampling_params(raw, vocab_size=VOCAB, **options)


def refusal(raw: Any, **options: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        parse(raw, **options)
    return caught.value


def test_nothing_given_means_the_documented_defaults() -> None:
    for raw in (None, {}, dict.fromkeys(name for name in READERS if name != "max_new_tokens")):
        params = parse(raw)
        assert params == SamplingParams()
        assert (params.max_new_tokens, params.temperature, params.top_k, params.n) == (128, 1.0, TOP_K_ALL, 1)
        assert not params.is_greedy
        assert not params.has_penalties


def test_null_max_new_tokens_means_up_to_the_context() -> None:
    assert parse({"max_new_tokens": None}).max_new_tokens is None
    assert parse({"max_new_tokens": None, "min_new_tokens": 5000}).min_new_tokens == 5000


def test_every_field_arrives() -> None:
    raw = {
        "max_new_tokens": 7,
        "stop": "x",
        "stop_token_ids": [4, None, 9, 4, VOCAB, -1],
        "stop_regex": ["a+", "é"],
        "temperature": 2,
        "top_p": 1,
        "top_k": -1,
        "min_p": 0.25,
        "frequency_penalty": -2,
        "presence_penalty": 1.5,
        "repetition_penalty": 0.5,
        "min_new_tokens": 7,
        "n": MAX_N,
        "beam_width": 1,
        "json_schema": "",
        "choice": [],
        "ignore_eos": True,
        "skip_special_tokens": False,
        "spaces_between_special_tokens": False,
        "no_stop_trim": True,
        "stream_interval": 3,
        "logit_bias": {"5": -100, "999": 0.5, 7: 1},
        "sampling_seed": -5,
        "custom_params": {"a": 1, "b": [1, "x", None], "c": {"d": True}},
    }
    assert parse(raw) == SamplingParams(
        max_new_tokens=7,
        stop=["x"],
        stop_token_ids=[4, 9],
        stop_regex=["a+", "é"],
        temperature=2.0,
        min_p=0.25,
        frequency_penalty=-2.0,
        presence_penalty=1.5,
        repetition_penalty=0.5,
        min_new_tokens=7,
        n=MAX_N,
        beam_width=1,
        json_schema="",
        ignore_eos=True,
        skip_special_tokens=False,
        spaces_between_special_tokens=False,
        no_stop_trim=True,
        stream_interval=3,
        logit_bias={5: -100.0, 999: 0.5, 7: 1.0},
        sampling_seed=-5,
        custom_params={"a": 1, "b": [1, "x", None], "c": {"d": True}},
    )


@pytest.mark.parametrize(("temperature", "greedy"), [(0, True), (9.9e-7, True), (1e-6, False), (0.5, False)])
def test_tiny_temperatures_mean_greedy(temperature: float, greedy: bool) -> None:
    params = parse({"temperature": temperature, "top_k": 50})
    assert params.is_greedy is greedy
    assert (params.top_k, params.temperature) == ((1, 1.0) if greedy else (50, temperature))


def test_callers_values_win_over_defaults_and_null_leaves_them() -> None:
    defaults = {"temperature": 0.6, "top_k": 20, "max_new_tokens": 9}
    params = parse({"temperature": 0.9, "top_k": None}, defaults=defaults)
    assert (params.temperature, params.top_k, params.max_new_tokens) == (0.9, 20, 9)
    assert parse({"max_new_tokens": None}, defaults=defaults).max_new_tokens is None
    assert defaults == {"temperature": 0.6, "top_k": 20, "max_new_tokens": 9}


def test_unknown_fields_are_named_with_all_known_ones() -> None:
    error = refusal({"seed": 1})
    assert isinstance(error, UnknownFieldError)
    assert isinstance(error, TypeError)
    text = str(error)
    assert text.startswith("unknown field `seed`, expected one of `max_new_tokens`, `stop`, `stop_token_ids`, ")
    assert text.endswith("`custom_params`, `beam_width`, `watermark`, `choice`")
    assert text.count("`") == 2 * (1 + 28)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ({"max_new_tokens": "5"}, 'invalid type: string "5", expected i64'),
        ({"max_new_tokens": 2.5}, "invalid type: floating point `2.5`, expected i64"),
        ({"top_k": 5.0}, "invalid type: floating point `5.0`, expected i64"),
        ({"top_k": True}, "invalid type: boolean `true`, expected i64"),
        ({"n": []}, "invalid type: sequence, expected i64"),
        ({"n": {}}, "invalid type: map, expected i64"),
        ({"n": 1 << 63}, "invalid value: integer `9223372036854775808`, expected i64"),
        ({"sampling_seed": -(1 << 63) - 1}, "invalid value: integer `-9223372036854775809`, expected i64"),
        ({"temperature": "hot"}, 'invalid type: string "hot", expected f64'),
        ({"temperature": False}, "invalid type: boolean `false`, expected f64"),
        ({"temperature": 10**400}, "invalid value: integer `an integer of 1329 bits`, expected f64"),
        ({"stop_token_ids": ["a"]}, 'invalid type: string "a", expected i64'),
        ({"stop_token_ids": 5}, "invalid type: integer `5`, expected a sequence of i64"),
        ({"stop": 5}, "invalid type: integer `5`, expected a string or a sequence of strings"),
        ({"stop": [None]}, "invalid type: null, expected a string"),
        ({"stop_regex": [["a"]]}, "invalid type: sequence, expected a string"),
        ({"json_schema": {}}, "invalid type: map, expected a string"),
        ({"ignore_eos": 1}, "invalid type: integer `1`, expected a boolean"),
        ({"logit_bias": [1]}, "invalid type: sequence, expected a map"),
        ({"logit_bias": {"1": None}}, "invalid type: null, expected f64"),
        ({"custom_params": 3}, "invalid type: integer `3`, expected a map"),
        ({"temperature": object}, "invalid type: Python object of class type, expected f64"),
    ],
)
def test_wrong_types_are_reported_in_serde_words_with_the_field(raw: dict[str, Any], text: str) -> None:
    (field,) = raw
    error = refusal(raw)
    assert isinstance(error, SchemaError)
    assert str(error) == f"{text} in `{field}`"
    assert error.field == field


@pytest.mark.parametrize("raw", [[], [1], "x", "", 0, 5, True, 1.5])
def test_params_that_are_no_map(raw: Any) -> None:
    assert "expected struct SamplingParams" in str(refusal(raw))


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("max_new_tokens", -1, ("at least 0", "-1")),
        ("temperature", -0.5, ("at least 0", "-0.5")),
        ("temperature", math.nan, ("finite", "nan")),
        ("temperature", math.inf, ("finite", "inf")),
        ("top_p", 0, ("(0, 1]", "got 0")),
        ("top_p", 2, ("(0, 1]", "got 2")),
        ("top_p", -math.inf, ("finite", "-inf")),
        ("top_k", 0, ("-1", "at least 1", "got 0")),
        ("top_k", -2, ("at least 1", "got -2")),
        ("min_p", 2, ("[0, 1]", "got 2")),
        ("min_p", -0.1, ("[0, 1]", "got -0.1")),
        ("frequency_penalty", 2.1, ("[-2, 2]", "2.1")),
        ("presence_penalty", -3, ("[-2, 2]", "-3")),
        ("repetition_penalty", 0, ("(0, 2]", "got 0")),
        ("repetition_penalty", 3, ("(0, 2]", "got 3")),
        ("min_new_tokens", -1, ("at least 0", "-1")),
        ("min_new_tokens", 129, ("[0, max_new_tokens = 128]", "129")),
        ("n", 0, ("[1, 4096]", "got 0")),
        ("n", -2, ("[1, 4096]", "-2")),
        ("n", 2**63 - 1, ("[1, 4096]",)),
        ("stream_interval", 0, ("at least 1", "got 0")),
        ("beam_width", 0, ("at least 1", "got 0")),
        ("beam_width", 2, ("not supported", "got 2")),
        ("stop", "", ("empty",)),
        ("stop", ["a", ""], ("empty",)),
        ("stop", [f"s{i}" for i in range(33)], ("at most 32", "got 33")),
        ("stop", "é" * 513, ("1024", "1026")),
        ("stop", "\ud800", ("surrogates",)),
        ("stop_regex", "", ("empty",)),
        ("stop_regex", "é" * 129, ("256", "258")),
        ("stop_regex", ["a"] * 33, ("at most 32", "got 33")),
        ("logit_bias", {"1000": 5}, ("[0, 999]", "1000")),
        ("logit_bias", {"99999999": 5}, ("[0, 999]", "99999999")),
        ("logit_bias", {"-1": 1}, ("[0, 999]", "-1")),
        ("logit_bias", {"abc": 1}, ("token ids", '"abc"')),
        ("logit_bias", {"1_0": 1}, ("token ids", '"1_0"')),
        ("logit_bias", {"٣": 1}, ("token ids", "٣")),
        ("logit_bias", {"9" * 5000: 1}, ("token ids", "999")),
        ("logit_bias", {"1": 1e9}, ("[-100, 100]", "1000000000.0")),
        ("logit_bias", {"1": math.nan}, ("finite", "nan")),
        ("custom_params", {"a": [[1]]}, ("flat", "sequence")),
        ("custom_params", {"a": {"b": {}}}, ("flat", "map")),
        ("custom_params", {"a": math.nan}, ("finite",)),
        ("regex", ["a"], ("invalid type", "string")),
        ("choice", "a", ("invalid type", "sequence")),
        ("watermark", {"enabled": True}, ("not supported",)),
    ],
)
def test_bad_values_name_field_range_and_value(field: str, value: Any, words: tuple[str, ...]) -> None:
    error = refusal({field: value})
    assert error.field == field
    assert field in str(error)
    for word in words:
        assert word in str(error)


def test_two_grammars_are_refused_before_one_is() -> None:
    kinds = "json_schema, regex, ebnf, structural_tag and choice"
    text = str(refusal({"regex": "a", "json_schema": "{}"}))
    assert text == f"Only one of {kinds} can be set, got json_schema and regex"
    text = str(refusal({"regex": "a", "choice": ["b"]}))
    assert text == f"Only one of {kinds} can be set, got regex and choice"


def test_without_a_vocabulary_ids_are_taken_as_they_are() -> None:
    params = parse_sampling_params({"logit_bias": {"99999999": 1}, "stop_token_ids": [10**9]}, vocab_size=None)
    assert (params.logit_bias, params.stop_token_ids) == ({99999999: 1.0}, [10**9])


def test_long_texts_are_cut_in_messages() -> None:
    assert len(str(refusal({"temperature": "x" * 10_000_000}))) < 200
    assert len(str(refusal({"x" * 10_000_000: 1}))) < 1000


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([1 << 63, 1 << 64, -(1 << 64), 10**400])
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=8)
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
)
LIKELY = st.sampled_from([0, 1, -1, 0.5, "", "x", ["x"], [1], {"1": 1}, True, None])


@settings(max_examples=600, deadline=None)
@given(st.dictionaries(st.sampled_from(list(READERS)), LIKELY | JSON, max_size=6) | JSON)
def test_any_json_gives_valid_params_or_an_invalid_request(raw: Any) -> None:
    try:
        params = parse(raw)
    except InvalidRequest as error:
        str(error).encode()
        return
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(params), type=SamplingParams) == params
    assert params.n >= 1
    assert params.top_k >= 1
    assert 0 < params.top_p <= 1
    assert params.temperature > 0
    assert all(params.stop)
    assert all(0 <= token < VOCAB for token in params.stop_token_ids)
