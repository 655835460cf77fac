"""Control, probes and information routes."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from sglang.ipc.messages import FlushCacheReqOutput


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_flush_answers_plain_text(client: httpx.AsyncClient, method: str) -> None:
    response = await client.request(method, "/flush_cache", params={"timeout": "1.5"})
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain")
    assert response.text.startswith("Cache flushed.")
    assert response.text.endswith("\n")
    assert client.tm.calls == [("flush", 1.5)]


async def test_flush_while_busy_fails(client: httpx.AsyncClient) -> None:
    client.tm.flush = FlushCacheReqOutput(success=False)
    response = await client.post("/flush_cache")
    assert (response.status_code, response.text) == (400, "Flush cache failed.\n")
    client.tm.flush = FlushCacheReqOutput(success=False, message="Another flush is waiting.")
    assert (await client.post("/flush_cache")).text == "Flush cache failed. Another flush is waiting.\n"


@pytest.mark.parametrize("timeout", ["-1", "nan", "inf", "x"])
async def test_flush_timeout_is_checked(client: httpx.AsyncClient, timeout: str) -> None:
    response = await client.post("/flush_cache", params={"timeout": timeout})
    assert response.status_code == 400
    assert response.json()["type"] == "Bad Request"
    assert "timeout" in response.json()["message"]


@pytest.mark.parametrize(
    ("body", "calls"),
    [
        ({"rid": "a"}, [("abort", "a", False)]),
        ({"abort_all": True}, [("abort", "", True)]),
        ({"rid": ""}, []),
        ({}, []),
        (None, []),
    ],
)
async def test_abort_passes_the_exact_id(client: httpx.AsyncClient, body: Any, calls: list[Any]) -> None:
    response = (
        await client.post("/abort_request", json=body) if body is not None else await client.post("/abort_request")
    )
    assert (response.status_code, response.content) == (200, b"")
    assert client.tm.calls == calls


@pytest.mark.parametrize("mode", [None, "abort", "retract", "in_place"])
async def test_pause_and_continue(client: httpx.AsyncClient, mode: str | None) -> None:
    response = await client.post("/pause_generation", json={"mode": mode} if mode else {})
    assert response.json() == {"message": "Generation paused successfully.", "status": "ok"}
    assert client.tm.calls == [("pause", mode or "abort")]
    assert (await client.get("/ready")).status_code == 503
    assert (await client.get("/ping")).status_code == 200
    response = await client.post("/continue_generation", json={})
    assert response.json() == {"message": "Generation continued successfully.", "status": "ok"}
    assert (await client.get("/ready")).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/pause_generation", {"mode": "nap"}, "mode"),
        ("/abort_request", {"rid": 5}, "rid"),
        ("/abort_request", [], "body"),
        ("/configure_logging", {"log_level": "loud"}, "log_level"),
        ("/configure_logging", {"dump_requests_folder": "/tmp/x"}, "dump_requests_folder"),
        ("/configure_logging", {"log_requests": True}, "log_requests"),
    ],
)
async def test_wrong_control_bodies_name_the_field(client: httpx.AsyncClient, path: str, body: Any, field: str) -> None:
    response = await client.post(path, json=body)
    assert response.status_code == 400
    assert field in response.text


async def test_configure_logging_takes_the_harmless(client: httpx.AsyncClient) -> None:
    response = await client.post("/configure_logging", json={"log_requests": False})
    assert (response.status_code, response.content) == (200, b"")


@pytest.mark.parametrize("path", ["/health", "/health_generate"])
async def test_health_asks_the_model(client: httpx.AsyncClient, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_HEALTH_CHECK_TIMEOUT", "7")
    response = await client.get(path)
    assert (response.status_code, response.content) == (200, b"")
    assert client.tm.calls == [("health", 7.0)]
    client.tm.healthy = False
    assert (await client.get(path)).status_code == 503
    assert (await client.get("/ready")).status_code == 503
    client.tm.healthy = True
    assert (await client.get(path)).status_code == 200
    assert (await client.get("/ready")).status_code == 200


async def test_health_without_generation(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", "false")
    assert (await client.get("/health")).status_code == 200
    assert client.tm.calls == []


@pytest.mark.parametrize("state", ["starting", "stopping", "failed"])
async def test_probes_say_503_at_both_ends_of_life(client: httpx.AsyncClient, state: str) -> None:
    if state == "failed":
        client.tm.status = "failed"
    else:
        setattr(client.app.state.lifecycle, state, True)
    for path in ("/health", "/health_generate", "/ready", "/ping"):
        response = await client.get(path)
        assert (response.status_code, response.content) == (503, b""), path
    if state == "stopping":
        assert (await client.get("/v1/models")).status_code == 503


async def test_root_greets(client: httpx.AsyncClient) -> None:
    assert (await client.get("/")).json() == "SGLang is running"
    response = await client.head("/")
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")


async def test_older_names_answer_the_same(client: httpx.AsyncClient) -> None:
    assert (await client.get("/get_model_info")).json() == (await client.get("/model_info")).json()
    assert (await client.get("/get_server_info")).json() == (await client.get("/server_info")).json()
    assert (await client.get("/get_memory_pool_size")).json() == 4096


async def test_server_args_are_flat_and_without_secrets(make_client: Any) -> None:
    async with make_client(api_key="sk-secret") as client:
        headers = {"Authorization": "Bearer sk-secret"}
        answer = (await client.get("/get_server_args", headers=headers)).json()
        assert answer["served_model_name"] == "fake"
        assert "internal_states" not in answer
        assert "sk-secret" not in str(answer)


async def test_loads_in_all_forms(client: httpx.AsyncClient) -> None:
    answer = (await client.get("/v1/loads")).json()
    assert list(answer) == ["timestamp", "version", "accelerator", "num_accelerators", "loads"]
    assert answer["loads"][0]["num_running_reqs"] == 2
    assert (await client.get("/v1/loads?dp_rank=5")).json()["loads"] == []
    memory = (await client.get("/v1/loads?include=memory")).json()["loads"]
    assert memory == [{"timestamp": 1.0, "dp_rank": 0, "memory": {"token_capacity": 4096}}]
    core = (await client.get("/v1/loads?include=core,queues")).json()["loads"][0]
    assert "memory" not in core
    assert core["queues"] == {"waiting": 1}
    assert (await client.get("/get_load")).json() == [
        {"rid": None, "dp_rank": 0, "num_reqs": 3, "num_waiting_reqs": 1, "num_tokens": 50}
    ]


async def test_loads_as_prometheus_text(client: httpx.AsyncClient) -> None:
    response = await client.get("/v1/loads?format=prometheus&include=core,memory")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = response.text.splitlines()
    assert "# TYPE sglang_token_usage gauge" in lines
    assert 'sglang_token_usage{dp_rank="0"} 0.25' in lines
    assert 'sglang_memory_token_capacity{dp_rank="0"} 4096' in lines


@pytest.mark.parametrize("query", ["include=nonsense", "dp_rank=x", "format=xml"])
async def test_loads_refuses_unknown_values(client: httpx.AsyncClient, query: str) -> None:
    response = await client.get(f"/v1/loads?{query}")
    assert response.status_code == 400
    assert query.partition("=")[0] in response.json()["message"]


async def test_models(client: httpx.AsyncClient) -> None:
    (card,) = (await client.get("/v1/models")).json()["data"]
    assert list(card) == ["id", "object", "created", "owned_by", "root", "parent", "max_model_len"]
    assert (card["id"], card["max_model_len"]) == ("fake", 2048)
    assert (await client.get("/v1/models/fake")).json()["id"] == "fake"
    response = await client.get("/v1/models/org/other")
    assert response.status_code == 404
    error = response.json()["error"]
    assert "org/other" in error.pop("message")
    assert error == {"type": "invalid_request_error", "param": "model", "code": "model_not_found"}


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_tokenize_and_back(client: httpx.AsyncClient, prefix: str) -> None:
    async def tokenize(**body: Any) -> Any:
        return (await client.post(f"{prefix}/tokenize", json=body)).json()

    async def detokenize(**body: Any) -> Any:
        return (await client.post(f"{prefix}/detokenize", json=body)).json()

    assert await tokenize(prompt="Hi") == {"tokens": [256, 72, 105], "count": 3, "max_model_len": 2048}
    assert (await tokenize(prompt="Hi", add_special_tokens=False))["tokens"] == [72, 105]
    assert await tokenize(prompt=["Hi", "a"]) == {
        "tokens": [[256, 72, 105], [256, 97]], "count": [3, 2], "max_model_len": 2048,
    }  # fmt: skip
    chat = await tokenize(messages=[{"role": "user", "content": "Hi"}])
    assert await detokenize(tokens=chat["tokens"], skip_special_tokens=False) == {"text": "<s>user:Hi;<s>assistant:"}
    assert chat["count"] == len(chat["tokens"])
    bare = await tokenize(messages=[{"role": "user", "content": "Hi"}], add_generation_prompt=False)
    assert bare["count"] < chat["count"]
    assert await detokenize(tokens=[256, 72]) == {"text": "H"}
    assert await detokenize(tokens=[[72], [105]]) == {"text": ["H", "i"]}
    assert await detokenize(tokens=[]) == {"text": ""}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "x", "messages": [{"role": "user", "content": "x"}]}, "messages"),
        ("/tokenize", {"prompt": 5}, "prompt"),
        ("/tokenize", {"messages": []}, "messages"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": ["a"]}, "tokens"),
        ("/detokenize", {"tokens": [-1]}, "tokens"),
        ("/detokenize", {"tokens": [300]}, "tokens"),
        ("/detokenize", {"tokens": [2**70]}, "tokens"),
        ("/detokenize", {"tokens": [[1], 2]}, "tokens"),
    ],
)
async def test_wrong_tokenize_bodies_name_the_field(
    client: httpx.AsyncClient, path: str, body: Any, field: str
) -> None:
    response = await client.post(path, json=body)
    assert response.status_code == 400
    assert field in response.json()["message"]


async def test_unknown_routes_and_methods_keep_the_known_key(client: httpx.AsyncClient) -> None:
    """Existing servers answer ``detail`` here, not the object of other errors."""
    for method, path, status, text in (
        ("GET", "/nonexistent", 404, "Not Found"), ("GET", "/v1", 404, "Not Found"),
        ("GET", "/generate", 405, "Method Not Allowed"), ("POST", "/health", 405, "Method Not Allowed"),
    ):  # fmt: skip
        response = await client.request(method, path)
        assert (response.status_code, response.json()) == (status, {"detail": text})
