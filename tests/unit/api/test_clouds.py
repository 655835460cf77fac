"""Vertex AI and SageMaker."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from unit.api.sse import events

PARAMS = {"sampling_params": {"max_new_tokens": 2}}


async def test_vertex_answers_a_list_also_for_one_instance(client: httpx.AsyncClient) -> None:
    body = {"instances": [{"text": "a"}], "parameters": {**PARAMS, "return_logprob": True}}
    answer = (await client.post("/vertex_generate", json=body)).json()
    assert list(answer) == ["predictions"]
    (prediction,) = answer["predictions"]
    assert (prediction["text"], prediction["meta_info"]["finish_reason"]["type"]) == (" Paris.", "length")
    assert len(prediction["meta_info"]["output_token_logprobs"]) == 2


@pytest.mark.parametrize(
    ("instances", "key", "prompts"),
    [
        ([{"text": "a"}, {"text": "b", "input_ids": [1]}], "text", ["a", "b"]),
        ([{"input_ids": [1, 2]}, {"input_ids": [3]}], "input_ids", [[1, 2], [3]]),
    ],
)
async def test_the_first_instance_names_the_prompt(
    client: httpx.AsyncClient, instances: list[Any], key: str, prompts: list[Any]
) -> None:
    response = await client.post("/vertex_generate", json={"instances": instances, "parameters": PARAMS})
    assert len(response.json()["predictions"]) == 2
    assert getattr(client.tm.submitted[0], key) == prompts


async def test_images_come_from_the_instances_that_have_them(client: httpx.AsyncClient) -> None:
    await client.post("/vertex_generate", json={"instances": [{"text": "a", "image_data": "x"}, {"text": "b"}]})
    assert client.tm.submitted[0].image_data == ["x"]


async def test_vertex_stream_is_the_native_one(client: httpx.AsyncClient) -> None:
    body = {"instances": [{"text": "a"}], "parameters": {**PARAMS, "stream": True}}
    found = events((await client.post("/vertex_generate", json=body)).text)
    assert (found[-2]["text"], found[-1]) == (" Paris.", "[DONE]")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "instances"),
        ({"instances": [{"prompt": "a"}]}, "input_ids"),
        ({"instances": [{"text": "a"}, {}]}, "missing in 1"),
        ({"instances": ["a"]}, "instances.0"),
        ({"instances": [{"text": 1}]}, "text"),
        ({"instances": [{"text": "a"}], "parameters": {"sampling_params": {"temperature": -1}}}, "temperature"),
        ({"instances": [{"text": "a"}], "parameters": {"stream": "yes"}}, "stream"),
    ],
)
async def test_vertex_refusals(client: httpx.AsyncClient, body: dict[str, Any], message: str) -> None:
    response = await client.post("/vertex_generate", json=body)
    assert response.status_code == 400
    assert message in response.text


async def test_no_instances_no_work(client: httpx.AsyncClient) -> None:
    assert (await client.post("/vertex_generate", json={"instances": []})).json() == []
    assert client.tm.submitted == []


async def test_vertex_names_its_route(make_client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIP_PREDICT_ROUTE", "/predict")
    async with make_client() as client:
        assert (await client.post("/predict", json={"instances": []})).json() == []
        assert (await client.post("/vertex_generate", json={"instances": []})).status_code == 404


async def test_invocations_answer_chats_whatever_the_media_type(client: httpx.AsyncClient) -> None:
    raw = b'{"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3}'
    response = await client.post("/invocations", content=raw, headers={"content-type": "text/plain"})
    assert response.json()["choices"][0]["message"]["content"] == " Paris.\n"
    response = await client.post("/invocations", content=b"{}")
    assert (response.status_code, response.json()["object"]) == (400, "error")
