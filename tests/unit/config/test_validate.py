"""Values that are refused, and what is said about them."""

from __future__ import annotations

from typing import Any

import pytest

from sglang.config.server_args import ServerArgs
from sglang.config.validate import ServerArgsError


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("port", "80", "port='80' is a str; give a value of type int"),
        ("port", True, "is a bool; give a value of type int"),
        ("port", -1, "--port -1 is out of range; give a value between 0 and 65535"),
        ("port", 65536, "out of range"),
        ("host", None, "give a value of type str"),
        ("page_size", 0, "give a value at least 1"),
        ("mem_fraction_static", 1.5, "out of range"),
        ("mem_fraction_static", "half", "type float or None"),
        ("chunked_prefill_size", 0, "-1 for whole prompts"),
        ("chunked_prefill_size", -2, "-1 for whole prompts"),
        ("random_seed", -1, "out of range"),
        ("log_level", "loud", "choose one of: debug, info"),
        ("log_level_http", "loud", "choose one of: debug, info"),
        ("schedule_policy", "best", "choose one of: lpm"),
        ("dtype", "int8", "choose one of: auto"),
        ("device", "cuda", "--device cuda is not supported yet"),
        ("json_model_override_args", "{", "takes a JSON text"),
        ("preferred_sampling_params", [1], "type dict or None"),
        ("log_requests_target", ["a", 1], "holds 1; give a list of str"),
        ("api_key", "", "--api-key is empty"),
        ("ssl_keyfile", "key.pem", "--ssl-certfile is missing"),
        ("ssl_certfile", "cert.pem", "--ssl-keyfile is missing"),
    ],
)
def test_bad_values(field: str, value: Any, message: str) -> None:
    with pytest.raises(ServerArgsError) as error:
        ServerArgs(**{field: value})
    assert message in str(error.value)
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("load_format", "dummy"),
        ("model_impl", "transformers"),
        ("is_embedding", True),
        ("enable_multimodal", True),
        ("custom_weight_loader", ["module.function"]),
        ("trust_request_chat_template", True),
        ("enable_custom_logit_processor", True),
        ("enable_return_hidden_states", True),
        ("tp_size", 2),
        ("pp_size", 2),
        ("dp_size", 2),
        ("ep_size", 2),
        ("nnodes", 2),
        ("disaggregation_mode", "prefill"),
        ("enable_lora", True),
        ("lora_paths", ["a"]),
        ("speculative_algorithm", "NGRAM"),
        ("enable_hierarchical_cache", True),
        ("hicache_storage_backend", "file"),
        ("model_checksum", "0"),
    ],
)
def test_what_would_change_the_answer_is_refused_not_ignored(field: str, value: Any) -> None:
    with pytest.raises(ServerArgsError, match=f"--{field.replace('_', '-')}.* is not supported yet") as error:
        ServerArgs(**{field: value})
    assert error.value.field == field


@pytest.mark.parametrize(("field", "value"), [("quantization", "awq"), ("kv_cache_dtype", "fp8_e5m2")])
def test_number_types_without_arithmetic_are_refused_with_those_that_have_one(field: str, value: str) -> None:
    with pytest.raises(ServerArgsError, match=f"{value} is not known; choose one of: .*int8"):
        ServerArgs(**{field: value})


def test_tokenizer_workers_and_keys_exclude_each_other() -> None:
    with pytest.raises(ServerArgsError, match="can't be combined with API keys"):
        ServerArgs(tokenizer_worker_num=2, api_key="k")


def test_an_int_is_fine_where_a_float_is_wanted() -> None:
    assert ServerArgs(schedule_conservativeness=2).schedule_conservativeness == 2


def test_a_tuple_is_fine_where_a_list_is_wanted() -> None:
    with pytest.warns(UserWarning, match="log-requests-target"):
        assert ServerArgs(log_requests_target=("stdout",)).log_requests_target == ["stdout"]  # type: ignore[arg-type]
