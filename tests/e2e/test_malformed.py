"""Malformed bodies: never a 5xx, never a dead process, always a message."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from e2e.conftest import Server
from e2e.rich_bodies import BODIES, has_error_shape, places, replaced

BIG = 10 * 1024 * 1024
TEXT = "The capital of France is"
MESSAGES = [{"role": "user", "content": "Hi"}]
ROUTES = sorted({"/generate", "/tokenize", "/detokenize", "/v1/tokenize", "/v1/detokenize", "/abort_request",
                 "/v1/files", *BODIES})  # fmt: skip

RAW: list[bytes] = [
    b"", b" ", b"{", b"{}", b"[]", b"null", b"true", b"0", b'"x"', b"{:", b"[1,2", b"\x00", b"\xff\xfe\x00",
    b'{"text": "\xc3\x28"}', b'{"prompt": "\xff"}', b'{"text": NaN}', b'{"text": "x", "priority": Infinity}',
    b'{"text": "x", "sampling_params": {"temperature": NaN}}', b'{"prompt": "x", "temperature": -Infinity}',
    b'{"text": "x", "priority": 123456789012345678901234567890}', b"[" * 100_000, b'{"a":' * 100_000,
    b'{"text": ' + b"[" * 5000 + b"]" * 5000 + b"}", b'{"text": "\\ud800"}', b'{"prompt": "\\ud800"}',
    b'{"messages": [{"role": "user", "content": "\\udfff"}]}', b'{"text":"x"}{"text":"y"}', b"--", b"text=x",
]  # fmt: skip

BAD_VALUES: list[Any] = [
    None, True, -1, 0, 2.5, 1e308, 2**63, 2**200, "x", "", [], [None], [[]], [[[]]], {}, {"a": 1}, [1, "a"], [-1],
    [2**40], [1.5], ["x", 1], "x" * 1000,
]  # fmt: skip

FIELDS: dict[str, list[str]] = {
    "/generate": [
        "text", "input_ids", "sampling_params", "rid", "logprob_start_len", "top_logprobs_num", "token_ids_logprob",
        "return_logprob", "stream", "priority", "extra_key", "lora_path", "session_params",
    ],
    "/v1/completions": [
        "prompt", "max_tokens", "temperature", "top_p", "n", "stop", "logprobs", "logit_bias", "seed", "echo",
        "stream", "stream_options", "rid", "top_k", "min_p",
    ],
    "/v1/chat/completions": [
        "messages", "max_tokens", "temperature", "top_logprobs", "n", "stop", "tools", "response_format",
        "chat_template_kwargs", "stream_options", "logit_bias", "seed", "tool_choice",
    ],
    "/tokenize": ["prompt", "messages", "add_special_tokens"],
    "/detokenize": ["tokens", "skip_special_tokens"],
}  # fmt: skip

VALID: dict[str, dict[str, Any]] = {
    "/generate": {"text": TEXT, "sampling_params": {"max_new_tokens": 1}},
    "/v1/completions": {"prompt": TEXT, "max_tokens": 1},
    "/v1/chat/completions": {"messages": MESSAGES, "max_tokens": 1, "temperature": 0},
    "/tokenize": {"prompt": TEXT},
    "/detokenize": {"tokens": [1]},
}

SAMPLING = ["max_new_tokens", "stop", "stop_token_ids", "stop_regex", "temperature", "top_p", "top_k", "min_p",
            "frequency_penalty", "repetition_penalty", "min_new_tokens", "n", "logit_bias", "sampling_seed",
            "ignore_eos", "stream_interval", "custom_params", "regex", "json_schema", "nonsense"]  # fmt: skip


def alive(http: httpx.Client) -> None:
    body = {"text": TEXT, "sampling_params": {"max_new_tokens": 1, "temperature": 0}}
    assert http.post("/generate", json=body).json()["text"] == " Paris"


WRONG: list[Any] = [True, -1, 2**63, "x", [], {}, [None]]
LONG = "word " * 9000
TOO_LONG: list[tuple[str, dict[str, Any], str]] = [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": LONG}]}, "messages"),
    ("/v1/responses", {"input": LONG}, "input:"),
    ("/v1/responses", {"input": "x", "max_output_tokens": 10**9}, "max_output_tokens"),
    ("/v1/messages", {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": LONG}]}, "messages"),
    ("/api/generate", {"model": "smollm2", "prompt": LONG}, "prompt"),
    ("/vertex_generate", {"instances": [{"text": LONG}]}, "text"),
]


def refuse(response: httpx.Response, what: object) -> None:
    assert response.status_code < 500, f"{what!r}: {response.status_code} {response.text[:300]}"
    if response.status_code != 200:
        assert len(response.text) > 10, f"{what!r}: no message"


@pytest.mark.parametrize("route", ROUTES)
def test_raw_bodies(client: httpx.Client, route: str) -> None:
    for raw in RAW:
        response = client.post(route, content=raw, headers={"content-type": "application/json"})
        refuse(response, (route, raw[:60]))
        if route != "/abort_request":
            assert response.status_code in (400, 413), (route, raw[:60], response.text[:200])
    alive(client)


@pytest.mark.parametrize("route", list(BODIES))
def test_every_place_of_a_body(client: httpx.Client, route: str) -> None:
    for body in BODIES[route]:
        for place in places(body):
            for value in WRONG:
                raw = json.dumps(replaced(body, place, value)).encode()
                response = client.post(route, content=raw, headers={"content-type": "application/json"})
                status = response.status_code
                assert status < 500, (place, value, response.text[:300])
                assert status == 200 or has_error_shape(route, status, response.json()), (place, value, response.text)
    alive(client)


@pytest.mark.parametrize(("route", "body", "field"), TOO_LONG)
def test_what_is_too_long_is_called_by_its_own_name(
    client: httpx.Client, route: str, body: dict[str, Any], field: str
) -> None:
    response = client.post(route, json=body)
    assert response.status_code == 400 and has_error_shape(route, 400, response.json())
    assert field in response.text and "8192" in response.text


@pytest.mark.parametrize("route", list(FIELDS))
def test_bad_fields(client: httpx.Client, route: str) -> None:
    for field in FIELDS[route]:
        for value in BAD_VALUES:
            body = {**VALID[route], field: value}
            raw = json.dumps(body).encode()
            response = client.post(route, content=raw, headers={"content-type": "application/json"})
            refuse(response, (route, field, value))
            if response.status_code == 400 and "multiple" not in response.text:
                names = (field, field.removesuffix("s"), "stop", "input_ids", "text", "prompt", "n ", "session", "lora")
                assert any(name in response.text for name in names), (field, value, response.text[:300])
    alive(client)


def test_bad_sampling_params(client: httpx.Client) -> None:
    for field in SAMPLING:
        for value in BAD_VALUES:
            params = {"max_new_tokens": 1, field: value}
            raw = json.dumps({"text": TEXT, "sampling_params": params}).encode()
            response = client.post("/generate", content=raw, headers={"content-type": "application/json"})
            refuse(response, (field, value))
    alive(client)


@pytest.mark.parametrize("n", [10**9, 2**63 - 1])
def test_absurd_n(client: httpx.Client, n: int) -> None:
    for route, key in (("/generate", "sampling_params"), ("/v1/completions", "n"), ("/v1/chat/completions", "n")):
        body = {**VALID[route], key: {"n": n} if key == "sampling_params" else n}
        response = client.post(route, json=body)
        assert response.status_code == 400 and "n" in response.text
    many = {"prompt": ["x"] * 2000, "n": 500, "max_tokens": 1}
    assert client.post("/v1/completions", json=many).status_code == 400
    alive(client)


@pytest.mark.parametrize("route", ["/generate", "/v1/completions", "/v1/chat/completions", "/tokenize"])
def test_ten_megabyte_string(client: httpx.Client, route: str) -> None:
    body = json.loads(json.dumps(VALID[route]))
    key = "text" if "text" in body else "prompt"
    if "messages" in body:
        body["messages"][0]["content"] = "a" * BIG
    else:
        body[key] = "a" * BIG
    refuse(client.post(route, json=body, timeout=120), route)
    alive(client)


def test_openapi_fuzz(smol_server: Server) -> None:
    """Schema-driven fuzzing of the JSON routes of this version, bounded."""
    schemathesis = pytest.importorskip("schemathesis")
    import hypothesis

    schema = schemathesis.openapi.from_url(smol_server.url + "/openapi.json")
    seen: list[str] = []
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.method.upper() != "POST" or operation.path not in FIELDS:
            continue

        @hypothesis.settings(
            max_examples=60,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(case=operation.as_strategy())
        def fuzz(case: Any) -> None:
            if isinstance(case.body, dict):  # keep the answers short
                case.body.pop("stream", None)
                case.body["max_tokens"] = 1
            refuse(case.call(timeout=60), (case.path, str(case.body)[:200]))

        fuzz()
        seen.append(operation.path)
    assert set(seen) == set(FIELDS)
    with smol_server.client() as http:
        alive(http)
