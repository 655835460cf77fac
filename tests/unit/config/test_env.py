"""Environment variables."""

from __future__ import annotations

import pytest

from sglang.config.env import Env, read_env


def test_defaults() -> None:
    assert read_env({}) == Env()
    assert Env().health_check_timeout == 20
    assert Env().req_waiting_timeout == -1
    assert Env().init_new_token_ratio == 0.7
    assert Env().min_new_token_ratio_factor == 0.14


def test_values() -> None:
    env = read_env(
        {
            "SGLANG_HEALTH_CHECK_TIMEOUT": "2.5",
            "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "false",
            "SGLANG_MAX_NEW_TOKENS_LIMIT": "64",
            "SGLANG_RETURN_ORIGINAL_LOGPROB": "1",
            "DISABLE_OPENAPI_DOC": "TRUE",
            "AIP_PREDICT_ROUTE": "/predict",
            "SGLANG_OLLAMA_ROOT_ROUTE": "/",
            "OTHER": "x",
        }
    )
    assert env == Env(
        health_check_timeout=2.5,
        enable_health_endpoint_generation=False,
        max_new_tokens_limit=64,
        return_original_logprob=True,
        disable_openapi_doc=True,
        aip_predict_route="/predict",
        ollama_root_route="/",
    )


@pytest.mark.parametrize(
    ("name", "text"), [("SGLANG_DETOKENIZER_MAX_STATES", "many"), ("SGLANG_RETURN_ORIGINAL_LOGPROB", "perhaps")]
)
def test_unreadable_values_name_the_variable(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"environment variable {name}='{text}'"):
        read_env({name: text})
