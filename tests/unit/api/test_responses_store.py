"""Stored responses: later turns, the background, cancelling, and the bounds of the memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from sglang.api.openai.responses import store as store_module
from sglang.api.openai.responses.store import ResponseStore, StoredResponse
from unit.api.fake_manager import Script
from unit.api.test_responses import ASK, URL, kinds, script, sse

BACKGROUND = {**ASK, "background": True}


@pytest.fixture
async def client(make_client: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with make_client(enable_response_store=True) as made:
        yield made


async def ask(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    response = await client.post(URL, json={**ASK, **body})
    assert response.status_code == 200, response.text
    return response.json()  # type: ignore[no-any-return]


async def finished(client: httpx.AsyncClient, name: str) -> dict[str, Any]:
    while (answer := (await client.get(f"{URL}/{name}")).json())["status"] in ("queued", "in_progress"):
        await asyncio.sleep(0)
    return answer  # type: ignore[no-any-return]


def prompt_of(client: Any) -> str:
    return client.tm.tokenizer.decode(client.tm.submitted[-1].input_ids, skip_special_tokens=False)  # type: ignore[no-any-return]


async def error(response: httpx.Response, status: int, param: str | None) -> str:
    assert response.status_code == status, response.text
    body = response.json()["error"]
    assert (body["param"], body["code"]) == (param, status)
    return str(body["message"])


async def test_a_stored_answer_is_what_was_said(client: httpx.AsyncClient) -> None:
    answer = await ask(client)
    assert (await client.get(f"{URL}/{answer['id']}")).json() == answer
    events = sse((await client.post(URL, json={**ASK, "stream": True})).text)
    final = events[-1]["response"]
    assert (await client.get(f"{URL}/{final['id']}")).json() == final


async def test_store_false_is_not_kept(client: httpx.AsyncClient) -> None:
    answer = await ask(client, store=False)
    await error(await client.get(f"{URL}/{answer['id']}"), 404, "response_id")


async def test_later_turns_see_all_earlier_ones_but_not_their_instructions(client: httpx.AsyncClient) -> None:
    script(client, "one")
    first = await ask(client, input="1?", instructions="Count.")
    assert prompt_of(client) == "<s>system:Count.;<s>user:1?;<s>assistant:"
    script(client, "two")
    second = await ask(client, input="2?", previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]
    await ask(client, input="3?", previous_response_id=second["id"], instructions="Now.")
    turns = "<s>user:1?;<s>assistant:one;<s>user:2?;<s>assistant:two;<s>user:3?;"
    assert prompt_of(client) == f"<s>system:Now.;{turns}<s>assistant:"
    await ask(client, input="4?", previous_response_id=first["id"])  # an answer can be gone on with twice
    assert prompt_of(client) == "<s>user:1?;<s>assistant:one;<s>user:4?;<s>assistant:"


@pytest.mark.parametrize(
    ("name", "status", "words"), [("abc", 400, "resp_"), ("resp_1", 404, "not found"), ("", 400, "resp_")]
)
async def test_wrong_ids(client: httpx.AsyncClient, name: str, status: int, words: str) -> None:
    response = await client.post(URL, json={**ASK, "previous_response_id": name})
    assert words in await error(response, status, "response_id" if status == 404 else "previous_response_id")
    if name:
        for method, path in (("GET", name), ("POST", f"{name}/cancel"), ("DELETE", name)):
            assert words in await error(await client.request(method, f"{URL}/{path}"), status, "response_id")


async def test_only_the_key_that_made_a_response_finds_it(client: httpx.AsyncClient) -> None:
    mine, other = {"Authorization": "Bearer a"}, {"Authorization": "Bearer b"}
    answer = (await client.post(URL, json=ASK, headers=mine)).json()
    path = f"{URL}/{answer['id']}"
    assert (await client.get(path, headers=mine)).status_code == 200
    for response in (
        await client.get(path, headers=other),
        await client.get(path),
        await client.post(f"{path}/cancel", headers=other),
        await client.delete(path, headers=other),
        await client.post(URL, json={**ASK, "previous_response_id": answer["id"]}, headers=other),
    ):
        await error(response, 404, "response_id")


async def test_background_answers_at_once_and_finishes_alone(client: httpx.AsyncClient) -> None:
    answer = (await client.post(URL, json=BACKGROUND)).json()
    assert (answer["status"], answer["background"], answer["output"]) == ("queued", True, [])
    done = await finished(client, answer["id"])
    assert (done["status"], done["output"][0]["content"][0]["text"]) == ("incomplete", " Paris.\n")
    assert client.tm.submitted[0].background
    assert client.tm.aborted == []


async def test_background_stream_can_be_joined_later(client: httpx.AsyncClient) -> None:
    text = (await client.post(URL, json={**BACKGROUND, "stream": True})).text
    events = sse(text)
    assert kinds(events)[:3] == ["created", "queued", "in_progress"]
    assert [event["response"]["status"] for event in events[:3]] == ["queued", "queued", "in_progress"]
    name = events[0]["response"]["id"]
    assert (await client.get(f"{URL}/{name}", params={"stream": "true"})).text == text
    rest = await client.get(f"{URL}/{name}", params={"stream": "true", "starting_after": "4"})
    assert text.endswith(rest.text) and '"sequence_number":5' in rest.text.split("\n\n")[0]


async def test_two_listeners_get_the_same_stream_while_it_runs(client: httpx.AsyncClient) -> None:
    client.tm.script = Script(hang=True)
    ways = [client.post(URL, json={**BACKGROUND, "request_id": "resp_x", "stream": True})]
    tasks = [asyncio.ensure_future(way) for way in ways]
    while not client.tm.submitted:
        await asyncio.sleep(0)
    tasks.append(asyncio.ensure_future(client.get(f"{URL}/resp_x", params={"stream": "true"})))
    for word in ("a", "b"):
        await asyncio.sleep(0)
        client.tm.deliver_one(word, 65)
    client.tm.finish_aborted()
    first, second = [response.text for response in await asyncio.gather(*tasks)]
    assert first == second
    assert sse(first)[-1]["type"] == "response.failed"


@pytest.mark.parametrize("stream", [False, True])
async def test_cancel_stops_the_work_once(client: httpx.AsyncClient, stream: bool) -> None:
    client.tm.script = Script(hang=True)
    body = {**BACKGROUND, "request_id": "resp_x", "stream": stream}
    task = asyncio.ensure_future(client.post(URL, json=body))
    while not client.tm.submitted:
        await asyncio.sleep(0)
    client.tm.deliver_one("so far", 65)
    assert (await finished_or(client, "in_progress"))["status"] == "in_progress"
    answer = (await client.post(f"{URL}/resp_x/cancel")).json()
    assert answer["status"] == "cancelled"
    assert len(client.tm.aborted) == 1
    client.tm.finish_aborted()
    await task
    while not (done := await finished(client, "resp_x"))["output"]:
        await asyncio.sleep(0)
    assert (done["status"], done["error"]) == ("cancelled", None)
    assert done["output"][0]["content"][0]["text"] == "so far"
    assert (await client.post(f"{URL}/resp_x/cancel")).json() == done
    assert len(client.tm.aborted) == 1
    text = await error(await client.post(URL, json={**ASK, "previous_response_id": "resp_x"}), 400,
                       "previous_response_id")  # fmt: skip
    assert "cancelled" in text


async def finished_or(client: httpx.AsyncClient, status: str) -> dict[str, Any]:
    while (answer := (await client.get(f"{URL}/resp_x")).json())["status"] == "queued":
        await asyncio.sleep(0)
    assert answer["status"] == status
    return answer  # type: ignore[no-any-return]


async def test_cancel_leaves_a_finished_response_alone(client: httpx.AsyncClient) -> None:
    answer = await ask(client)
    assert (await client.post(f"{URL}/{answer['id']}/cancel")).json() == answer


async def test_a_running_response_can_not_be_gone_on_with(client: httpx.AsyncClient) -> None:
    client.tm.script = Script(hang=True)
    answer = (await client.post(URL, json=BACKGROUND)).json()
    response = await client.post(URL, json={**ASK, "previous_response_id": answer["id"]})
    assert "queued" in await error(response, 400, "previous_response_id")


async def test_refused_in_the_background_is_failed_and_refused_before_is_a_400(client: httpx.AsyncClient) -> None:
    response = await client.post(URL, json={**BACKGROUND, "temperature": -1, "request_id": "resp_x"})
    await error(response, 400, None)
    await error(await client.get(f"{URL}/resp_x"), 404, "response_id")
    script(client, "", finish={"type": "abort", "message": "queue is full", "status_code": 503})
    answer = (await client.post(URL, json=BACKGROUND)).json()
    done = await finished(client, answer["id"])
    assert (done["status"], done["error"]["message"]) == ("failed", "queue is full")


async def test_nothing_is_kept_of_a_request_that_was_refused(client: httpx.AsyncClient) -> None:
    script(client, "", finish={"type": "abort", "message": "queue is full", "status_code": 503})
    assert (await client.post(URL, json={**ASK, "request_id": "resp_x"})).status_code == 503
    await error(await client.get(f"{URL}/resp_x"), 404, "response_id")


async def test_delete_forgets(client: httpx.AsyncClient) -> None:
    answer = await ask(client)
    path = f"{URL}/{answer['id']}"
    assert (await client.delete(path)).json() == {"id": answer["id"], "object": "response", "deleted": True}
    await error(await client.get(path), 404, "response_id")


async def test_an_id_is_taken_once(client: httpx.AsyncClient) -> None:
    await ask(client, request_id="resp_x")
    assert "exists" in await error(await client.post(URL, json={**ASK, "request_id": "resp_x"}), 400, "request_id")
    assert len(client.tm.submitted) == 1


async def test_background_work_is_bounded(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MAX_BACKGROUND", 2)
    client.tm.script = Script(hang=True)
    statuses = [(await client.post(URL, json=BACKGROUND)).status_code for _ in range(3)]
    assert statuses == [200, 200, 503]
    assert len(client.tm.submitted) == 2


@pytest.mark.parametrize("path", ["GET /resp_1", "GET /resp_1/input_items", "POST /resp_1/cancel", "DELETE /resp_1"])
async def test_without_the_flag_nothing_is_stored(make_client: Any, path: str) -> None:
    method, suffix = path.split()
    async with make_client() as client:
        answer = (await client.post(URL, json=ASK)).json()
        assert answer["store"] is True
        response = await client.request(method, URL + suffix)
        assert "--enable-response-store" in await error(response, 400, "response_id")


@pytest.mark.parametrize(("after", "status"), [("x", 400), ("-9", 200), ("99", 200)])
async def test_starting_after_is_checked(client: httpx.AsyncClient, after: str, status: int) -> None:
    await client.post(URL, json={**BACKGROUND, "request_id": "resp_x", "stream": True})
    response = await client.get(f"{URL}/resp_x", params={"stream": "true", "starting_after": after})
    assert response.status_code == status
    await ask(client, request_id="resp_y")
    await error(await client.get(f"{URL}/resp_y", params={"stream": "true"}), 400, "stream")


def entry(name: str, text: str = "") -> StoredResponse:
    made = StoredResponse(name, "", [{"role": "user", "content": text}])
    made.settle({"id": name, "status": "completed", "output": []})
    return made


def test_the_oldest_finished_give_way() -> None:
    store = ResponseStore(max_responses=2)
    for name in ("resp_1", "resp_2", "resp_3"):
        store.add(entry(name))
    with pytest.raises(Exception, match="not found"):
        store.get("resp_1", "")
    assert store.get("resp_2", "").id == "resp_2"


def test_bytes_are_bounded_too() -> None:
    store = ResponseStore(max_bytes=2_500)
    for name in ("resp_1", "resp_2", "resp_3"):
        store.add(entry(name, "x" * 1_000))
    with pytest.raises(Exception, match="not found"):
        store.get("resp_1", "")
    store.add(entry("resp_4", "x" * 10_000))  # more than everything: not kept, and nothing breaks
    store.add(entry("resp_5"))
    assert store.get("resp_5", "").id == "resp_5"
