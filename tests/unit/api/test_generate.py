"""/generate: single, batch, samples, streams and errors."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from unit.api.fake_manager import Script
from unit.api.sse import chunks

ASK: dict[str, Any] = {"text": "Hi", "sampling_params": {"max_new_tokens": 3, "temperature": 0}}


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_single_prompt_gives_one_object(client: httpx.AsyncClient, method: str) -> None:
    answer = (await client.request(method, "/generate", json={**ASK, "rid": "r"})).json()
    assert list(answer) == ["text", "output_ids", "meta_info"]
    assert (answer["text"], answer["output_ids"], answer["meta_info"]["id"]) == (" Paris.\n", [10, 11, 12], "r")
    assert answer["meta_info"]["finish_reason"] == {"type": "length", "length": 3}


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ({"text": ["a", "b"]}, 2), ({"text": ["a"]}, 1), ({"input_ids": [[1], [2]]}, 2),
        ({"text": "a", "sampling_params": {"n": 2}}, 2), ({"text": ["a", "b"], "sampling_params": {"n": 2}}, 4),
    ],
)  # fmt: skip
async def test_batches_and_samples_give_a_list(client: httpx.AsyncClient, body: dict[str, Any], count: int) -> None:
    answer = (await client.post("/generate", json=body)).json()
    assert isinstance(answer, list)
    assert len(answer) == count


async def test_content_type_and_unknown_keys_do_not_matter(client: httpx.AsyncClient) -> None:
    raw = b'{"text": "Hi", "foo": 1, "sampling_params": {"max_new_tokens": 1}}'
    response = await client.post("/generate", content=raw, headers={"content-type": "text/plain"})
    assert response.status_code == 200


async def test_fields_reach_the_manager_as_given(client: httpx.AsyncClient) -> None:
    body = {
        **ASK, "return_logprob": True, "top_logprobs_num": 2, "logprob_start_len": 0, "priority": 3, "extra_key": "k",
        "return_hidden_states": "last", "token_ids_logprob": [1, 2], "stream": None,
    }  # fmt: skip
    await client.post("/generate", json=body)
    obj = client.tm.submitted[0]
    assert (obj.return_logprob, obj.top_logprobs_num, obj.logprob_start_len) == (True, 2, 0)
    assert (obj.priority, obj.extra_key, obj.return_hidden_states, obj.token_ids_logprob) == (3, "k", "last", [1, 2])


async def test_stream_is_cumulative(client: httpx.AsyncClient) -> None:
    response = await client.post("/generate", json={**ASK, "stream": True})
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    items = chunks(response.text)
    assert [item["text"] for item in items] == [" Paris", " Paris.", " Paris.\n"]
    assert [item["output_ids"] for item in items] == [[10], [10, 11], [10, 11, 12]]
    assert [item["meta_info"]["finish_reason"] is None for item in items] == [True, True, False]
    assert all("index" not in item for item in items)


async def test_stream_is_incremental_with_the_flag(make_client: Any) -> None:
    async with make_client(incremental_streaming_output=True) as client:
        items = chunks((await client.post("/generate", json={**ASK, "stream": True})).text)
        assert [item["text"] for item in items] == [" Paris", ".", "\n"]
        assert [item["output_ids"] for item in items] == [[10], [11], [12]]
        assert [item["meta_info"]["completion_tokens"] for item in items] == [1, 2, 3]


async def test_batch_streams_carry_the_index(client: httpx.AsyncClient) -> None:
    items = chunks((await client.post("/generate", json={**ASK, "text": ["a", "b"], "stream": True})).text)
    for index in (0, 1):
        own = [item for item in items if item["index"] == index]
        assert own[-1]["text"] == " Paris.\n"
        assert own[-1]["meta_info"]["finish_reason"]["type"] == "length"


async def test_refused_stream_is_200_with_an_error_event(client: httpx.AsyncClient) -> None:
    body = {"text": "Hi", "sampling_params": {"temperature": -1}, "stream": True}
    response = await client.post("/generate", json=body)
    assert response.status_code == 200
    (item,) = chunks(response.text)
    assert "temperature" in item["error"].pop("message")
    assert item["error"] == {"type": "invalid_request_error", "code": 400, "retryable": False}


ABORT = {"type": "abort", "message": "queue is full", "status_code": 503}


async def test_abort_with_a_status_is_an_error_or_a_chunk(client: httpx.AsyncClient) -> None:
    client.tm.script = Script([""], [1], ABORT)
    response = await client.post("/generate", json=ASK)
    assert response.status_code == 503
    assert response.json() == {
        "object": "error", "message": "queue is full", "type": "503", "param": None, "code": 503,
    }  # fmt: skip
    (item,) = chunks((await client.post("/generate", json={**ASK, "stream": True})).text)
    assert item["meta_info"]["finish_reason"] == ABORT
    client.tm.script = Script([""], [1], {**ABORT, "status_code": 400})
    response = await client.post("/generate", json=ASK)
    assert (response.status_code, response.json()) == (400, {"error": {"message": "queue is full"}})


async def test_abort_by_a_user_answers_200(client: httpx.AsyncClient) -> None:
    client.tm.script = Script(["a"], [1], {"type": "abort", "message": "Aborted", "status_code": None})
    response = await client.post("/generate", json=ASK)
    assert response.status_code == 200
    assert response.json()["text"] == "a"


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ({}, "native"),
        ({"text": ""}, "native"),
        ({"text": "x", "sampling_params": {"temperature": -1}}, "native"),
        ({"text": "x", "return_entropy": True}, "native"),
        ({"text": "x", "bootstrap_host": "h"}, "native"),
        ({"text": "x", "sampling_params": {"temperature": "hot"}}, "string"),
        ({"text": 5}, "validation"),
        ({"input_ids": [1.5]}, "validation"),
        ({"input_ids": ["1"]}, "validation"),
        ({"text": "x", "stream": "yes"}, "validation"),
        ({"text": "x", "sampling_params": [1]}, "validation"),
    ],
)
async def test_errors_have_the_shape_of_their_kind(client: httpx.AsyncClient, body: Any, shape: str) -> None:
    response = await client.post("/generate", json=body)
    assert response.status_code == 400
    answer = response.json()
    if shape == "validation":
        assert (answer["object"], answer["type"], answer["code"]) == ("error", "Bad Request", 400)
        assert any(name in answer["message"] for name in body)
    else:
        assert list(answer) == ["error"]
        assert isinstance(answer["error"], str if shape == "string" else dict)


async def test_system_that_died_answers_503(client: httpx.AsyncClient) -> None:
    client.tm.status = "failed"
    response = await client.post("/generate", json=ASK)
    assert response.status_code == 503
    (item,) = chunks((await client.post("/generate", json={**ASK, "stream": True})).text)
    assert (item["error"]["code"], item["error"]["retryable"]) == (503, True)


async def test_bugs_do_not_leak_their_cause(client: httpx.AsyncClient) -> None:
    async def broken(obj: object) -> None:
        raise RuntimeError("secret path")

    client.tm.submit = broken
    response = await client.post("/generate", json=ASK)
    assert (response.status_code, response.text) == (500, "Internal Server Error")
    response = await client.post("/v1/completions", json={"prompt": "x"})
    assert response.status_code == 500
    assert response.json()["type"] == "InternalServerError"
    assert "secret" not in response.text
    response = await client.post("/generate", json={**ASK, "stream": True})
    assert chunks(response.text)[0]["error"]["code"] == 500
    assert "secret" not in response.text
