"""Bodies nobody should send: always a 400 (or 413) with a message, never a 5xx; and the OpenAPI document."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sglang.api.body import MAX_JSON_DEPTH

V1 = ["/v1/completions", "/v1/chat/completions", "/v1/tokenize", "/v1/detokenize", "/tokenize", "/detokenize"]
ROUTES = ["/generate", "/vertex_generate", "/invocations", *V1]
JSON = {"content-type": "application/json"}
RAW = [
    b"", b" ", b"{", b"[]", b"null", b"true", b"0", b'"x"', b"{:", b"[1,2", b"\x00", b"\xff\xfe\x00", b"text=x",
    b'{"text": "\xc3\x28"}', b'{"text": NaN}', b'{"text": Infinity}', b'{"text": "\\ud800"}', b'{"text":"x"}{}',
    b"[" * 100_000, b'{"a":' * 100_000, b'{"text": ' + b"[" * 500 + b"]" * 500 + b"}", b'\xef\xbb\xbf{"text": "x"}',
]  # fmt: skip


@pytest.mark.parametrize("route", ROUTES)
async def test_broken_json_is_a_400_with_a_message(client: httpx.AsyncClient, route: str) -> None:
    for raw in RAW:
        response = await client.post(route, content=raw, headers=JSON)
        assert response.status_code == 400, raw[:40]
        answer = response.json()
        assert (answer["object"], answer["type"], answer["code"]) == ("error", "Bad Request", 400)
        assert len(answer["message"]) > 10


@pytest.mark.parametrize("route", V1)
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", None])
async def test_v1_routes_take_json_only(client: httpx.AsyncClient, route: str, kind: str | None) -> None:
    response = await client.post(route, content=b"{}", headers={"content-type": kind} if kind else {})
    assert response.status_code == 400
    assert "application/json" in response.json()["message"]


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON"])
async def test_parameters_of_the_media_type_are_fine(client: httpx.AsyncClient, kind: str) -> None:
    response = await client.post("/v1/tokenize", content=b'{"prompt": "x"}', headers={"content-type": kind})
    assert response.status_code == 200


@pytest.mark.parametrize(("depth", "status"), [(MAX_JSON_DEPTH - 1, 200), (MAX_JSON_DEPTH, 400)])
async def test_nesting_is_limited(client: httpx.AsyncClient, depth: int, status: int) -> None:
    raw = b'{"text": "x", "unknown": ' + b"[" * depth + b"]" * depth + b"}"
    response = await client.post("/generate", content=raw)
    assert response.status_code == status
    if status == 400:
        assert str(MAX_JSON_DEPTH) in response.json()["message"]


@pytest.mark.parametrize("declared", [True, False])
async def test_large_bodies_are_answered_413(make_client: Any, monkeypatch: pytest.MonkeyPatch, declared: bool) -> None:
    monkeypatch.setattr("sglang.api.app.MAX_BODY_BYTES", 1000)

    async def pieces() -> Any:
        for _ in range(20):
            yield b"x" * 100

    async with make_client() as client:
        response = await client.post("/generate", content=b"x" * 2000 if declared else pieces())
        assert response.status_code == 413
        assert (response.json()["object"], response.json()["code"]) == ("error", 413)
        assert "1000" in response.json()["message"]
        small = {"text": "x", "sampling_params": {"max_new_tokens": 1}}
        assert (await client.post("/generate", json=small)).status_code == 200


VALID: dict[str, dict[str, Any]] = {
    "/generate": {"text": "x", "sampling_params": {"max_new_tokens": 1}},
    "/v1/completions": {"prompt": "x", "max_tokens": 1},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1},
    "/v1/responses": {"input": "x", "max_output_tokens": 1},
    "/v1/messages": {"model": "fake", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1},
    "/api/chat": {"model": "fake", "messages": [{"role": "user", "content": "x"}], "options": {"num_predict": 1}},
    "/api/generate": {"model": "fake", "prompt": "x", "options": {"num_predict": 1}},
}


def body_fields(document: dict[str, Any], route: str) -> list[str]:
    schema = document["paths"][route]["post"]["requestBody"]["content"]["application/json"]["schema"]
    name = schema["$ref"].rsplit("/", 1)[1]
    return list(document["components"]["schemas"][name]["properties"])


@pytest.mark.parametrize("route", VALID)
async def test_null_means_absent_in_every_optional_field(client: httpx.AsyncClient, route: str) -> None:
    fields = body_fields(client.app.openapi(), route)
    assert len(fields) > 8
    for field in set(fields) - set(VALID[route]):
        response = await client.post(route, json={**VALID[route], field: None})
        assert response.status_code == 200, (field, response.text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("route", VALID)
@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
async def test_no_value_in_any_field_is_a_server_error(client: httpx.AsyncClient, route: str, data: Any) -> None:
    fields = [name for name in body_fields(client.app.openapi(), route) if name != "sampling_params"]
    field = data.draw(st.sampled_from(sorted(fields)))
    raw = json.dumps({**VALID[route], field: data.draw(json_values)}).encode()
    response = await client.post(route, content=raw, headers=JSON)
    refused = (400, 404) if field == "model" else (400,)
    assert response.status_code in (200, *refused), (field, response.text)
    if response.status_code != 200:
        assert len(response.text) > 10


ITEM_KEYS = ("type", "role", "content", "call_id", "name", "arguments", "output", "input", "summary", "id")
ITEM_TYPES = ("message", "function_call", "function_call_output", "custom_tool_call", "reasoning", "item_reference")


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
async def test_no_input_item_is_a_server_error(client: httpx.AsyncClient, data: Any) -> None:
    item = data.draw(st.dictionaries(st.sampled_from(ITEM_KEYS), json_values, max_size=6))
    item.update(data.draw(st.sampled_from([{}, {"role": "user"}, *({"type": kind} for kind in ITEM_TYPES)])))
    raw = json.dumps({**VALID["/v1/responses"], "input": [item]}).encode()
    response = await client.post("/v1/responses", content=raw, headers=JSON)
    assert response.status_code in (200, 400), response.text


async def test_openapi_documents_bodies_and_answers(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    for route in ROUTES:
        operation = document["paths"][route]["post"]
        assert {"200", "400", "401", "413", "503"} <= set(operation["responses"])
        assert body_fields(document, route)
    assert "422" not in str(document["paths"])
    references = {part for part in str(document).split("'") if part.startswith("#/components/schemas/")}
    assert {name.rsplit("/", 1)[1] for name in references} <= set(document["components"]["schemas"])


async def test_openapi_can_be_switched_off(make_client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISABLE_OPENAPI_DOC", "true")
    async with make_client() as client:
        for path in ("/openapi.json", "/docs", "/redoc"):
            assert (await client.get(path)).status_code == 404
