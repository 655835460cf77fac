"""The items that led to a stored response, and references to items."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from unit.api.test_responses import ASK, URL, script
from unit.api.test_responses_store import ask, client, error, prompt_of

__all__ = ["client"]

CALL = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}


async def listed(client: httpx.AsyncClient, name: str, **query: str) -> dict[str, Any]:
    response = await client.get(f"{URL}/{name}/input_items", params=query)
    assert response.status_code == 200, response.text
    return response.json()  # type: ignore[no-any-return]


async def test_input_items_of_all_turns_newest_first(client: httpx.AsyncClient) -> None:
    script(client, "one")
    first = await ask(client, input="1?", instructions="Count.")
    second = await ask(client, input=[CALL, {"role": "user", "content": "2?"}], previous_response_id=first["id"])
    page = await listed(client, second["id"])
    assert [item["type"] for item in page["data"]] == ["message", "function_call", "message", "message"]
    newest, call, said, oldest = page["data"]
    assert newest["content"] == [{"type": "input_text", "text": "2?"}]
    assert (newest["role"], newest["status"], call["name"]) == ("user", "completed", "f")
    assert said == first["output"][0]
    assert oldest["content"] == [{"type": "input_text", "text": "1?"}]
    assert (page["object"], page["first_id"], page["last_id"]) == ("list", newest["id"], oldest["id"])
    assert page["has_more"] is False
    assert len({item["id"] for item in page["data"]}) == 4
    assert (await listed(client, first["id"]))["data"] == [oldest]


async def test_input_items_in_pages(client: httpx.AsyncClient) -> None:
    answer = await ask(
        client, input=[{"role": "user", "content": str(number), "id": f"m{number}"} for number in range(5)]
    )
    page = await listed(client, answer["id"], order="asc", limit="2")
    assert ([item["id"] for item in page["data"]], page["has_more"]) == (["m0", "m1"], True)
    page = await listed(client, answer["id"], order="asc", limit="3", after=page["last_id"])
    assert ([item["id"] for item in page["data"]], page["has_more"]) == (["m2", "m3", "m4"], False)
    page = await listed(client, answer["id"], after="m0")
    assert (page["data"], page["first_id"]) == ([], None)


@pytest.mark.parametrize(("name", "value"), [("limit", "0"), ("limit", "x"), ("order", "up"), ("after", "nope")])
async def test_bad_queries_are_refused(client: httpx.AsyncClient, name: str, value: str) -> None:
    answer = await ask(client)
    response = await client.get(f"{URL}/{answer['id']}/input_items", params={name: value})
    assert name in await error(response, 400, name)


async def test_items_of_others_are_not_there(client: httpx.AsyncClient) -> None:
    answer = await ask(client)
    other = {"authorization": "Bearer other"}
    await error(await client.get(f"{URL}/{answer['id']}/input_items", headers=other), 404, "response_id")
    reference = {"type": "item_reference", "id": answer["output"][0]["id"]}
    await error(await client.post(URL, json={**ASK, "input": [reference]}, headers=other), 404, "input")


@pytest.mark.parametrize("kind", [{"type": "item_reference"}, {}, {"type": None}])
async def test_a_reference_stands_for_its_item(client: httpx.AsyncClient, kind: dict[str, Any]) -> None:
    script(client, "one")
    first = await ask(client, input="1?")
    question = (await listed(client, first["id"]))["data"][0]["id"]
    references = [{**kind, "id": question}, {**kind, "id": first["output"][0]["id"]}]
    second = await ask(client, input=[*references, {"role": "user", "content": "2?"}])
    assert prompt_of(client) == "<s>user:1?;<s>assistant:one;<s>user:2?;<s>assistant:"
    assert [item["type"] for item in (await listed(client, second["id"]))["data"]] == ["message"] * 3


@pytest.mark.parametrize(("name", "status"), [("msg_1", 404), (7, 400), (None, 400)])
async def test_wrong_references(client: httpx.AsyncClient, name: Any, status: int) -> None:
    response = await client.post(URL, json={**ASK, "input": [{"type": "item_reference", "id": name}]})
    assert "input[0].id" in await error(response, status, "input")
    assert client.tm.submitted == []  # type: ignore[attr-defined]


async def test_references_need_the_store(make_client: Any) -> None:
    async with make_client() as client:
        response = await client.post(URL, json={**ASK, "input": [{"type": "item_reference", "id": "msg_1"}]})
        assert "--enable-response-store" in await error(response, 400, "input")
