"""A client that goes away frees its request at once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from unit.api.fake_manager import Script

BODIES: dict[str, dict[str, Any]] = {
    "/generate": {"text": "x"},
    "/v1/completions": {"prompt": "x"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "x"}]},
    "/v1/responses": {"input": "x", "request_id": "r"},
    "/v1/messages": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]},
    "/api/chat": {"model": "fake", "messages": [{"role": "user", "content": "x"}]},
    "/api/generate": {"model": "fake", "prompt": "x"},
}


class Caller:
    """One request at the ASGI level whose client can hang up."""

    def __init__(self, app: Any, path: str, body: dict[str, Any]) -> None:
        self.gone = asyncio.Event()
        self.sent: list[dict[str, Any]] = []
        self._raw: bytes | None = json.dumps(body).encode()
        headers = [(b"content-type", b"application/json"), (b"host", b"test")]
        scope = {
            "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": headers, "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http",
            "server": ("test", 80), "client": ("test", 1), "root_path": "",
        }  # fmt: skip
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self._raw is not None:
            raw, self._raw = self._raw, None
            return {"type": "http.request", "body": raw, "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    async def hang_up(self) -> None:
        self.gone.set()
        await asyncio.wait_for(self.task, 5)


async def submitted(client: httpx.AsyncClient, count: int = 1) -> None:
    while len(client.tm.submitted) < count:
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
async def test_waiting_request_is_aborted(client: httpx.AsyncClient, path: str, stream: bool) -> None:
    client.tm.script = Script(hang=True)
    caller = Caller(client.app, path, {**BODIES[path], "stream": stream, "rid": "r"})
    await submitted(client)
    assert client.tm.aborted == []
    await caller.hang_up()
    assert client.tm.aborted == [client.tm.rid]
    assert client.app.state.lifecycle.active == 0


@pytest.mark.parametrize("path", BODIES)
async def test_stream_is_aborted_after_its_first_chunk(client: httpx.AsyncClient, path: str) -> None:
    client.tm.script = Script(hang=True)
    caller = Caller(client.app, path, {**BODIES[path], "stream": True, "rid": "r"})
    await submitted(client)
    client.tm.deliver_one("Hello", 5)
    while not any(message.get("body") for message in caller.sent):
        await asyncio.sleep(0)
    await caller.hang_up()
    assert client.tm.aborted == [client.tm.rid]
    assert b"[DONE]" not in b"".join(message.get("body", b"") for message in caller.sent)


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
async def test_finished_request_is_not_aborted(client: httpx.AsyncClient, path: str, stream: bool) -> None:
    response = await client.post(path, json={**BODIES[path], "stream": stream})
    assert response.status_code == 200
    assert client.tm.aborted == []


async def test_background_request_survives(client: httpx.AsyncClient) -> None:
    client.tm.script = Script(hang=True)
    caller = Caller(client.app, "/generate", {"text": "x", "background": True, "rid": "r"})
    await submitted(client)
    caller.gone.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert client.tm.aborted == []
    client.tm.finish_aborted()
    await asyncio.wait_for(caller.task, 5)


async def test_other_requests_of_a_batch_are_aborted_too(client: httpx.AsyncClient) -> None:
    client.tm.script = Script(hang=True)
    body = {"prompt": ["a", "b"], "n": 2, "rid": "r", "stream": True}
    caller = Caller(client.app, "/v1/completions", body)
    await submitted(client)
    await caller.hang_up()
    assert client.tm.aborted == ["r_0", "r_1", "r_2", "r_3"]
