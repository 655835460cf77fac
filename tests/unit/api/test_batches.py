"""/v1/batches over a temporary folder: results, errors, cancelling, restarts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from sglang.api.openai.batch import lines, worker
from unit.api.fake_manager import FakeTokenizerManager, Script
from unit.api.test_files import error, made

URL = "/v1/batches"
CHAT = "/v1/chat/completions"
Make = Callable[..., httpx.AsyncClient]


def line(name: str, url: str = CHAT, **body: Any) -> dict[str, Any]:
    default = {"messages": [{"role": "user", "content": name}], "max_tokens": 2}
    return {"custom_id": name, "method": "POST", "url": url, "body": {**default, **body}}


def jsonl(*items: Any) -> bytes:
    return b"".join(json.dumps(item).encode() + b"\n" for item in items)


@pytest.fixture
def make(make_client: Any, tmp_path: Path) -> Make:
    return lambda tm=None, **flags: make_client(tm, file_storage_path=str(tmp_path / "store"), **flags)


@pytest.fixture
async def client(make: Make) -> AsyncIterator[httpx.AsyncClient]:
    async with make() as made_client:
        yield made_client
        made_client.app.state.storage.close()


async def start(client: httpx.AsyncClient, *items: Any, **fields: Any) -> dict[str, Any]:
    file = await made(client, items[0] if items and isinstance(items[0], bytes) else jsonl(*items))
    body = {"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h", **fields}
    response = await client.post(URL, json=body)
    assert response.status_code == 200, response.text
    return response.json()  # type: ignore[no-any-return]


async def until(client: httpx.AsyncClient, batch: dict[str, Any], *statuses: str) -> dict[str, Any]:
    ends = statuses or ("completed", "failed", "expired", "cancelled")
    while (now := (await client.get(f"{URL}/{batch['id']}")).json())["status"] not in ends:
        await asyncio.sleep(0.001)
    return now  # type: ignore[no-any-return]


async def content(client: httpx.AsyncClient, name: str | None) -> dict[str, Any]:
    """Lines of an output file by custom_id."""
    if name is None:
        return {}
    text = (await client.get(f"/v1/files/{name}/content")).text
    found = [json.loads(item) for item in text.splitlines()]
    assert len({item["custom_id"] for item in found}) == len(found)
    return {item["custom_id"]: item for item in found}


async def test_a_batch_answers_every_line(client: httpx.AsyncClient) -> None:
    batch = await start(client, line("a"), line("b"), line("c", temperature=-1), metadata={"k": "v"})
    assert (batch["object"], batch["status"], batch["metadata"]) == ("batch", "validating", {"k": "v"})
    assert batch["expires_at"] - batch["created_at"] == 24 * 3600
    done = await until(client, batch)
    assert done["status"] == "completed", done
    assert done["request_counts"] == {"total": 3, "completed": 2, "failed": 1}
    good, bad = await content(client, done["output_file_id"]), await content(client, done["error_file_id"])
    assert sorted(good) == ["a", "b"] and sorted(bad) == ["c"]
    answer = good["a"]["response"]
    assert (answer["status_code"], answer["body"]["choices"][0]["message"]["content"]) == (200, " Paris.")
    assert answer["request_id"] == answer["body"]["id"]
    assert good["a"]["error"] is None
    assert bad["c"]["response"]["status_code"] == 400
    assert "temperature" in bad["c"]["response"]["body"]["message"]
    usage = [item["response"]["body"]["usage"] for item in good.values()]
    assert done["usage"]["output_tokens"] == sum(u["completion_tokens"] for u in usage) == 4
    assert done["usage"]["total_tokens"] == sum(u["total_tokens"] for u in usage)
    file = (await client.get(f"/v1/files/{done['output_file_id']}")).json()
    assert (file["purpose"], file["expires_at"]) == ("batch_output", None)
    for earlier, later in (("in_progress_at", "finalizing_at"), ("finalizing_at", "completed_at")):
        assert done[earlier] <= done[later]


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [("/v1/completions", {"prompt": "x", "max_tokens": 2}), ("/v1/responses", {"input": "x", "max_output_tokens": 2})],
)
async def test_other_endpoints(client: httpx.AsyncClient, endpoint: str, body: dict[str, Any]) -> None:
    item = {"custom_id": "a", "method": "POST", "url": endpoint, "body": body}
    done = await until(client, await start(client, item, endpoint=endpoint))
    assert done["request_counts"] == {"total": 1, "completed": 1, "failed": 0}
    assert done["usage"]["output_tokens"] == 2


async def test_only_errors_leave_no_output_file(client: httpx.AsyncClient) -> None:
    done = await until(client, await start(client, line("a", temperature=-1)))
    assert (done["status"], done["output_file_id"]) == ("completed", None)
    assert done["error_file_id"] is not None


async def test_a_batch_takes_half_of_what_runs_at_once(client: httpx.AsyncClient) -> None:
    client.tm.scheduler_info["max_running_requests"] = 6
    client.tm.script = Script(hang=True)
    batch = await start(client, *[line(f"{i}") for i in range(10)])
    while len(client.tm.submitted) < 3:
        await asyncio.sleep(0.001)
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(client.tm.submitted) == 3
    await client.post(f"{URL}/{batch['id']}/cancel")
    await until(client, batch)


async def test_full_queues_are_waited_for(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "FIRST_WAIT", 0.0)
    full = {"type": "abort", "message": "queue is full", "status_code": 503}
    client.tm.script = Script([""], [1], full)
    batch = await start(client, line("a"))
    while len(client.tm.submitted) < 3:
        await asyncio.sleep(0.001)
    client.tm.script = Script()
    done = await until(client, batch)
    assert done["request_counts"] == {"total": 1, "completed": 1, "failed": 0}


BAD_FILES = [
    (b"", "empty_file", None),
    (b"\n \n", "empty_file", None),
    (b"{\n", "invalid_json_line", 1),
    (b"[]\n", "invalid_json_line", 1),
    (jsonl(line("a"), line("a")), "duplicate_custom_id", 2),
    (jsonl(line("")), "invalid_custom_id", 1),
    (jsonl({**line("a"), "custom_id": 5}), "invalid_custom_id", 1),
    (jsonl({**line("a"), "method": "GET"}), "invalid_method", 1),
    (jsonl(line("a", "/v1/completions")), "mismatched_url", 1),
    (jsonl({**line("a"), "body": []}), "invalid_body", 1),
    (jsonl(line("b"), line("a", stream=True)), "invalid_body", 2),
    (jsonl(line("a", background=True)), "invalid_body", 1),
    (b"\xff\xfe\n", "invalid_json_line", 1),
]


@pytest.mark.parametrize(("data", "code", "number"), BAD_FILES)
async def test_bad_input_fails_before_anything_runs(
    client: httpx.AsyncClient, data: bytes, code: str, number: int | None
) -> None:
    done = await until(client, await start(client, data))
    assert done["status"] == "failed"
    problem = done["errors"]["data"][0]
    assert (problem["code"], problem["line"]) == (code, number)
    assert client.tm.submitted == []


async def test_inputs_are_bounded(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_REQUESTS", 2)
    monkeypatch.setattr(lines, "MAX_PROBLEMS", 3)
    done = await until(client, await start(client, *[line(f"{i}") for i in range(3)]))
    assert [problem["code"] for problem in done["errors"]["data"]] == ["too_many_requests"]
    done = await until(client, await start(client, b"{\n" * 50))
    assert len(done["errors"]["data"]) == 2 + 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"input_file_id": "file-1"}, "no such file"),
        ({"input_file_id": None}, "input_file_id"),
        ({"endpoint": "/v1/embeddings"}, "endpoint"),
        ({"endpoint": "/flush_cache"}, "endpoint"),
        ({"completion_window": "1h"}, "completion_window"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"output_expires_after": {"anchor": "created_at", "seconds": 1}}, "output_expires_after"),
    ],
)
async def test_bad_bodies(client: httpx.AsyncClient, change: dict[str, Any], words: str) -> None:
    file = await made(client, jsonl(line("a")))
    body = {"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h", **change}
    assert words in error(await client.post(URL, json=body), 400)


async def test_input_must_be_uploaded_for_batches(client: httpx.AsyncClient) -> None:
    file = await made(client, jsonl(line("a")), purpose="user_data")
    body = {"input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h"}
    assert "purpose 'batch'" in error(await client.post(URL, json=body), 400)


async def test_cancel_keeps_what_is_done(client: httpx.AsyncClient) -> None:
    client.tm.scheduler_info["max_running_requests"] = 2
    batch = await start(client, *[line(f"{i}") for i in range(20)])
    while not (await until(client, batch, "in_progress"))["request_counts"]["completed"]:
        await asyncio.sleep(0)
    client.tm.script = Script(hang=True)
    now = (await client.post(f"{URL}/{batch['id']}/cancel")).json()
    assert (now["status"], now["cancelling_at"] is not None) == ("cancelling", True)
    done = await until(client, batch)
    assert (done["status"], done["cancelled_at"] is not None) == ("cancelled", True)
    counts = done["request_counts"]
    assert 1 <= counts["completed"] < counts["total"] == 20
    assert len(await content(client, done["output_file_id"])) == counts["completed"]
    assert "cancelled" in error(await client.post(f"{URL}/{batch['id']}/cancel"), 400)


async def test_a_waiting_batch_can_be_cancelled(client: httpx.AsyncClient) -> None:
    client.tm.script = Script(hang=True)
    first, second = await start(client, line("a")), await start(client, line("b"))
    await until(client, first, "in_progress")
    for batch in (second, first):
        await client.post(f"{URL}/{batch['id']}/cancel")
    assert [(await until(client, batch))["status"] for batch in (first, second)] == ["cancelled"] * 2
    assert len(client.tm.submitted) <= 1


async def test_the_window_closes(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    client.tm.scheduler_info["max_running_requests"] = 2
    batch = await start(client, *[line(f"{i}") for i in range(30)])
    while not (await until(client, batch, "in_progress"))["request_counts"]["completed"]:
        await asyncio.sleep(0)
    client.app.state.storage.worker.get(batch["id"]).expires_at = 0
    done = await until(client, batch)
    assert (done["status"], done["expired_at"] is not None) == ("expired", True)
    bad = await content(client, done["error_file_id"])
    good = await content(client, done["output_file_id"])
    assert len(good) + len(bad) == 30 and good and bad
    assert {item["error"]["code"] for item in bad.values()} == {"batch_expired"}


async def test_input_of_an_unfinished_batch_can_not_be_deleted(client: httpx.AsyncClient) -> None:
    client.tm.script = Script(hang=True)
    batch = await start(client, line("a"))
    path = f"/v1/files/{batch['input_file_id']}"
    assert batch["id"] in error(await client.delete(path), 400)
    await client.post(f"{URL}/{batch['id']}/cancel")
    await until(client, batch)
    assert (await client.delete(path)).status_code == 200


async def test_lists_are_newest_first_and_paged(client: httpx.AsyncClient) -> None:
    names = [(await start(client, line("a")))["id"] for _ in range(3)][::-1]
    body = (await client.get(URL, params={"limit": 2})).json()
    assert ([item["id"] for item in body["data"]], body["has_more"]) == (names[:2], True)
    body = (await client.get(URL, params={"after": names[1]})).json()
    assert ([item["id"] for item in body["data"]], body["has_more"]) == (names[2:], False)
    assert "limit" in error(await client.get(URL, params={"limit": 101}), 400)
    for path in ("batch-1", "batch-" + "0" * 32, "x"):
        error(await client.get(f"{URL}/{path}"), 404)


async def test_unfinished_batches_are_bounded(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sglang.api.openai.batches.MAX_UNFINISHED", 1)
    client.tm.script = Script(hang=True)
    batch = await start(client, line("a"))
    body = {"input_file_id": batch["input_file_id"], "endpoint": CHAT, "completion_window": "24h"}
    error(await client.post(URL, json=body), 503)


async def test_keys_of_the_server_are_used(make: Make) -> None:
    async with make(api_key="k") as client:
        client.headers["authorization"] = "Bearer k"
        done = await until(client, await start(client, line("a")))
        assert done["request_counts"]["completed"] == 1
        client.app.state.storage.close()


async def stopped(client: httpx.AsyncClient) -> None:
    """The server stops as a graceful one does: what runs is aborted, answers that still come are half ones."""
    client.app.state.lifecycle.stopping = True
    client.tm.finish_aborted()
    task = client.app.state.storage.worker._task
    await asyncio.wait_for(task, 5)
    client.app.state.storage.close()


async def test_a_restart_goes_on_where_the_last_one_stopped(make: Make, tmp_path: Path) -> None:
    async with make() as client:
        client.tm.scheduler_info["max_running_requests"] = 2
        batch = await start(client, *[line(f"{i}") for i in range(12)])
        while (await until(client, batch, "in_progress"))["request_counts"]["completed"] < 3:
            await asyncio.sleep(0)
        client.tm.script = Script(hang=True)
        before = len(client.tm.submitted)
        while len(client.tm.submitted) == before:
            await asyncio.sleep(0)
        await stopped(client)
    done_before = len((tmp_path / "store" / "batches" / batch["id"] / "good.jsonl").read_text().splitlines())
    with (tmp_path / "store" / "batches" / batch["id"] / "good.jsonl").open("a") as file:
        file.write('{"custom_id": "11", "resp')  # as if the machine had died while writing
    async with make() as client:
        done = await until(client, batch)
        assert done["status"] == "completed"
        assert done["request_counts"] == {"total": 12, "completed": 12, "failed": 0}
        assert len(client.tm.submitted) == 12 - done_before < 10
        good = await content(client, done["output_file_id"])
        assert sorted(good, key=int) == [str(i) for i in range(12)]
        assert {item["response"]["body"]["choices"][0]["message"]["content"] for item in good.values()} == {" Paris."}
        assert done["usage"]["output_tokens"] == 24
        assert [path.suffix for path in (tmp_path / "store" / "batches").iterdir()] == [".json"]
        client.app.state.storage.close()


async def test_a_crash_while_handing_over_loses_and_doubles_nothing(make: Make, monkeypatch: Any) -> None:
    real = worker.BatchWorker._hand_over

    def crash_after_the_first(self: Any, record: Any, path: Path, name: str, kind: str) -> str | None:
        if kind == "error":
            raise asyncio.CancelledError
        return real(self, record, path, name, kind)

    async with make() as client:
        monkeypatch.setattr(worker.BatchWorker, "_hand_over", crash_after_the_first)
        monkeypatch.setattr(worker.asyncio, "to_thread", _inline)
        batch = await start(client, line("a"), line("b", temperature=-1))
        task = client.app.state.storage.worker._task
        await asyncio.wait((task,))
        assert task.cancelled()
        client.app.state.storage.close()
    monkeypatch.setattr(worker.BatchWorker, "_hand_over", real)
    async with make() as client:
        done = await until(client, batch)
        assert done["request_counts"] == {"total": 2, "completed": 1, "failed": 1}
        assert client.tm.submitted == []
        assert list(await content(client, done["output_file_id"])) == ["a"]
        assert list(await content(client, done["error_file_id"])) == ["b"]
        assert done["usage"]["output_tokens"] == 2
        client.app.state.storage.close()


async def _inline(function: Any, *args: Any) -> Any:
    return function(*args)


async def test_a_ready_server_goes_on_without_being_asked(make: Make) -> None:
    async with make() as client:
        client.tm.script = Script(hang=True)
        await start(client, line("a"))
        while not client.tm.submitted:
            await asyncio.sleep(0.001)
        await stopped(client)
    async with make() as client:
        tm: FakeTokenizerManager = client.tm  # type: ignore[attr-defined]
        for ready in client.app.state.lifecycle.on_ready:  # type: ignore[attr-defined]
            ready()
        while not tm.submitted:
            await asyncio.sleep(0.001)
        client.app.state.storage.close()  # type: ignore[attr-defined]


async def test_a_lost_input_file_fails_its_batch_only(client: httpx.AsyncClient) -> None:
    storage = client.app.state.storage
    client.tm.script = Script(hang=True)
    first, second = await start(client, line("a")), await start(client, line("b"))
    storage.files.remove(storage.files.get(second["input_file_id"]))
    await client.post(f"{URL}/{first['id']}/cancel")
    assert (await until(client, second))["status"] == "failed"
    client.tm.script = Script()
    assert (await until(client, await start(client, line("c"))))["status"] == "completed"
