"""/v1/messages and count_tokens: prompts, shapes, events, errors."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from sglang.api.anthropic import stream as anthropic_stream
from sglang.api.anthropic.form import MessageForm
from sglang.api.anthropic.protocol import MessagesRequest
from sglang.api.anthropic.stream import PING, MessageWriter, message_events
from sglang.api.chat.request import ChatRequest
from sglang.ipc.errors import InvalidRequest
from unit.api.fake_manager import FakeTokenizerManager, Script

URL = "/v1/messages"
HI = {"role": "user", "content": "Hi"}
ASK: dict[str, Any] = {"model": "m", "messages": [HI], "max_tokens": 3}
TOOL = {"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {"x": {"type": "integer"}}}}
CALL = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
PIXEL = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


def prompt_of(tm: FakeTokenizerManager) -> str:
    ids = tm.submitted[-1].input_ids
    assert tm.tokenizer is not None
    return tm.tokenizer.decode(ids, skip_special_tokens=False)  # type: ignore[arg-type]


def sampling_of(client: Any) -> dict[str, Any]:
    return client.tm.submitted[-1].sampling_params  # type: ignore[no-any-return]


def script(client: Any, text: str, finish: dict[str, Any] | None = None, step: int = 3) -> None:
    """The model will say ``text``, a few characters at a time."""
    pieces = [text[at : at + step] for at in range(0, len(text), step)] or [""]
    client.tm.script = Script(pieces, [65] * len(pieces), finish or {"type": "stop", "matched": 257})


def events(body: str) -> list[dict[str, Any]]:
    """Decoded events; checks that the name of each is the type inside."""
    assert body.endswith("\n\n")
    found = []
    for block in body[:-2].split("\n\n"):
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    return found


def kinds(found: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in found]


def error_of(response: httpx.Response) -> dict[str, Any]:
    body = response.json()
    assert list(body) == ["type", "error"] and body["type"] == "error", body
    assert list(body["error"]) == ["type", "message"]
    return body["error"]  # type: ignore[no-any-return]


async def test_whole_answer_has_the_keys_of_the_contract(client: httpx.AsyncClient) -> None:
    answer = (await client.post(URL, json=ASK)).json()
    assert answer.pop("id").startswith("msg_")
    assert answer == {
        "type": "message", "role": "assistant", "content": [{"type": "text", "text": " Paris.\n"}], "model": "m",
        "stop_reason": "max_tokens", "stop_sequence": None, "usage": {"input_tokens": 20, "output_tokens": 3},
    }  # fmt: skip


async def test_parameters_get_native_names(client: httpx.AsyncClient) -> None:
    body = {**ASK, "temperature": 0.5, "top_p": 0.9, "top_k": 7, "stop_sequences": ["x"], "metadata": {"user_id": "u"}}
    await client.post(URL, json=body)
    assert sampling_of(client) == {"max_new_tokens": 3, "temperature": 0.5, "top_p": 0.9, "top_k": 7, "stop": ["x"]}


@pytest.mark.parametrize(
    ("finish", "reason", "sequence"),
    [
        ({"type": "stop", "matched": 257}, "end_turn", None),
        ({"type": "stop", "matched": "END"}, "stop_sequence", "END"),
        ({"type": "stop", "matched": "other"}, "end_turn", None),
        ({"type": "length", "length": 3}, "max_tokens", None),
        ({"type": "abort", "message": "Aborted"}, "end_turn", None),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_stop_reasons(
    client: httpx.AsyncClient, finish: dict[str, Any], reason: str, sequence: str | None, stream: bool
) -> None:
    script(client, "abc", finish)
    response = await client.post(URL, json={**ASK, "stop_sequences": ["END"], "stream": stream})
    end = events(response.text)[-2]["delta"] if stream else response.json()
    assert (end["stop_reason"], end["stop_sequence"]) == (reason, sequence)


@pytest.mark.parametrize(
    ("extra", "prompt"),
    [
        ({"system": "S"}, "<s>system:S;<s>user:Hi;"),
        ({"system": [{"type": "text", "text": "S"}, {"type": "text", "text": "T", "cache_control": {"type": "x"}}]},
         "<s>system:S\nT;<s>user:Hi;"),
        ({"messages": [{"role": "system", "content": "T"}, HI], "system": "S"}, "<s>system:S\nT;<s>user:Hi;"),
        ({"messages": [HI, {"role": "system", "content": [{"type": "text", "text": "T"}]}, HI]},
         "<s>user:Hi;<s>system:T;<s>user:Hi;"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]},
         "<s>user:a\nb;"),
        ({"messages": [{"role": "user", "content": []}]}, "<s>user:;"),
        ({"messages": [{"role": "user", "content": [
            {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]}]}]},
         "<s>user:t\ns\nx;"),
    ],
)  # fmt: skip
async def test_prompts(client: httpx.AsyncClient, extra: dict[str, Any], prompt: str) -> None:
    assert (await client.post(URL, json={**ASK, **extra})).status_code == 200
    assert prompt_of(client.tm) == prompt + "<s>assistant:"


async def test_a_trailing_assistant_message_is_continued(client: httpx.AsyncClient) -> None:
    await client.post(URL, json={**ASK, "messages": [HI, {"role": "assistant", "content": "The answer is ("}]})
    assert prompt_of(client.tm) == "<s>user:Hi;<s>assistant:The answer is ("


async def test_blocks_of_a_tool_turn_keep_their_order(client: httpx.AsyncClient) -> None:
    seen: list[dict[str, Any]] = []

    def render(messages: list[dict[str, Any]], **kwargs: Any) -> str:
        seen.extend(messages)
        return "x"

    client.tm.chat_template.render = render
    use = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"x": 1}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": True,
              "content": [{"type": "text", "text": "a"}, {"type": "tool_reference", "tool_name": "g"}]}  # fmt: skip
    turn = [
        {"type": "text", "text": "before"},
        result,
        {"type": "tool_result", "id": "2"},
        {"type": "text", "text": "z"},
    ]
    assistant = {"role": "assistant", "content": [{"type": "text", "text": "t"}, use]}
    await client.post(URL, json={**ASK, "messages": [HI, assistant, {"role": "user", "content": turn}]})
    function = {"name": "f", "arguments": {"x": 1}}
    assert seen[1:] == [
        {"role": "assistant", "content": "t", "tool_calls": [
            {"id": "toolu_1", "type": "function", "function": function}]},
        {"role": "user", "content": "before"},
        {"role": "tool", "tool_call_id": "toolu_1", "content": "a\ng"},
        {"role": "tool", "tool_call_id": "2", "content": ""},
        {"role": "user", "content": "z"},
    ]  # fmt: skip


async def test_tools_and_choice(make_client: Any) -> None:
    server_tool = {"type": "web_search_20250305", "name": "web_search"}
    async with make_client(tool_call_parser="qwen25") as client:
        script(client, "I call. " + CALL)
        answer = (await client.post(URL, json={**ASK, "max_tokens": 99, "tools": [server_tool, TOOL]})).json()
        text, call = answer["content"]
        assert text == {"type": "text", "text": "I call."}
        assert call.pop("id").startswith("call_")
        assert call == {"type": "tool_use", "name": "f", "input": {"x": 1}}
        assert answer["stop_reason"] == "tool_use"


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tool_choice": {"type": "any"}, "tools": [{"type": "bash_20250124", "name": "bash"}]}, "tool_choice"),
        ({"tool_choice": {"type": "tool", "name": "g"}, "tools": [TOOL]}, "'g'"),
        ({"tool_choice": {"type": "tool"}, "tools": [TOOL]}, "name"),
        ({"tools": [{"name": "f"}]}, "tools.0"),
        ({"tools": [{"type": "mystery", "name": "f"}]}, "mystery"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": None}, "max_tokens"),
        ({"model": ""}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user", "content": [{"type": "document"}]}]}, "document"),
        ({"messages": [{"role": "user", "content": [{"type": "redacted_thinking", "data": "x"}]}]}, "redacted"),
        ({"messages": [{"role": "user", "content": [PIXEL]}]}, "text only"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "id": "1", "content": [PIXEL]}]}]}, "text"),
        ({"messages": [{"role": "assistant", "content": [PIXEL]}, HI]}, "'image'"),
        ({"thinking": {"type": "enabled"}}, "1024"),
        ({"thinking": {"type": "adaptive"}}, "reasoning parser"),
        ({"temperature": -1}, "temperature"),
        ({"bootstrap_host": "h"}, "bootstrap_host"),
    ],
)
async def test_refusals(client: httpx.AsyncClient, extra: dict[str, Any], message: str) -> None:
    response = await client.post(URL, json={**ASK, **extra})
    assert response.status_code == 400, response.text
    error = error_of(response)
    assert error["type"] == "invalid_request_error"
    assert message in error["message"]


@pytest.mark.parametrize(
    ("parser", "thinking", "prompt", "status"),
    [
        ("qwen3", {"type": "disabled"}, "[enable_thinking=False]", 200),
        ("qwen3", {"type": "adaptive"}, "[enable_thinking=True]", 200),
        ("qwen3", {"type": "enabled", "budget_tokens": 1024}, "[enable_thinking=True]", 200),
        ("qwen3", None, "", 200),
        (None, {"type": "disabled"}, "", 200),
        ("deepseek-r1", {"type": "disabled"}, "", 400),
        ("deepseek-r1", {"type": "adaptive"}, "", 200),
        ("hunyuan", {"type": "disabled"}, "[reasoning_effort=none]", 200),
        ("minimax-m3", {"type": "disabled"}, "[thinking_mode=disabled]", 200),
    ],
)
async def test_thinking_switch(make_client: Any, parser: str | None, thinking: Any, prompt: str, status: int) -> None:
    async with make_client(reasoning_parser=parser) as client:
        response = await client.post(URL, json={**ASK, "thinking": thinking})
        assert response.status_code == status
        if status == 200:
            assert prompt_of(client.tm) == f"<s>user:Hi;{prompt}<s>assistant:"


@pytest.mark.parametrize(
    ("parser", "source", "expected"),
    [
        (None, "plain", {"content": "out"}),
        ("qwen3", "plain", {"content": "<think>in</think>out"}),
        ("qwen3", "reasoning_content", {"content": "out", "reasoning_content": "in"}),
    ],
)
async def test_earlier_thoughts(make_client: Any, parser: str | None, source: str, expected: dict[str, Any]) -> None:
    async with make_client(reasoning_parser=parser) as client:
        seen: list[dict[str, Any]] = []

        def render(messages: list[dict[str, Any]], **kwargs: Any) -> str:
            seen.extend(messages)
            return "x"

        client.tm.chat_template.render, client.tm.chat_template.source = render, source
        blocks = [{"type": "thinking", "thinking": "in", "signature": "s"}, {"type": "text", "text": "out"}]
        await client.post(URL, json={**ASK, "messages": [HI, {"role": "assistant", "content": blocks}, HI]})
        assert seen[1] == {"role": "assistant", **expected}


async def test_effort_and_format(client: httpx.AsyncClient) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    config = {"effort": "xhigh", "format": {"type": "json_schema", "schema": schema}}
    await client.post(URL, json={**ASK, "output_config": config})
    assert "[reasoning_effort=max]" in prompt_of(client.tm)
    assert json.loads(sampling_of(client)["json_schema"]) == schema


async def test_stream_has_the_events_of_the_contract_in_order(client: httpx.AsyncClient) -> None:
    response = await client.post(URL, json={**ASK, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    found = events(response.text)
    assert found[0]["message"].pop("id").startswith("msg_")
    delta = {"type": "content_block_delta", "index": 0}
    assert found == [
        {"type": "message_start", "message": {
            "type": "message", "role": "assistant", "content": [], "model": "m",
            "usage": {"input_tokens": 20, "output_tokens": 0}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        {**delta, "delta": {"type": "text_delta", "text": " Paris"}},
        {**delta, "delta": {"type": "text_delta", "text": "."}},
        {**delta, "delta": {"type": "text_delta", "text": "\n"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens", "stop_sequence": None},
         "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]  # fmt: skip


async def test_stream_of_thoughts_text_and_calls(make_client: Any) -> None:
    async with make_client(tool_call_parser="qwen25", reasoning_parser="qwen3") as client:
        script(client, f"<think>hm</think>So:{CALL}{CALL}")
        body = {**ASK, "max_tokens": 99, "tools": [TOOL], "stream": True}
        found = events((await client.post(URL, json=body)).text)
    starts = [event["content_block"] for event in found if event["type"] == "content_block_start"]
    assert [block["type"] for block in starts] == ["thinking", "text", "tool_use", "tool_use"]
    assert starts[0] == {"type": "thinking", "thinking": "", "signature": ""}
    assert starts[2]["input"] == {} and starts[2]["id"] != starts[3]["id"]
    texts = dict.fromkeys(range(4), "")
    for event in found:
        if event["type"] == "content_block_delta":
            texts[event["index"]] += next(value for key, value in event["delta"].items() if key != "type")
    assert texts == {0: "hm", 1: "So:", 2: '{"x": 1}', 3: '{"x": 1}'}
    open_blocks: list[int] = []
    for event in found:  # blocks never overlap
        if event["type"] == "content_block_start":
            assert not open_blocks
            open_blocks.append(event["index"])
        elif event["type"] == "content_block_stop":
            assert open_blocks.pop() == event["index"]
    assert found[-2]["delta"]["stop_reason"] == "tool_use"


async def test_an_empty_answer_has_one_empty_block(client: httpx.AsyncClient) -> None:
    script(client, "")
    assert (await client.post(URL, json=ASK)).json()["content"] == [{"type": "text", "text": ""}]
    found = events((await client.post(URL, json={**ASK, "stream": True})).text)
    assert kinds(found) == [
        "message_start", "content_block_start", "ping", "content_block_stop", "message_delta", "message_stop"
    ]  # fmt: skip


async def test_a_prompt_that_is_too_long_is_told_inside_a_stream(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(asked: Any) -> Any:
        raise InvalidRequest("input_ids: too long", "input_ids")

    monkeypatch.setattr(client.tm, "submit", refuse)  # type: ignore[attr-defined]
    whole = await client.post(URL, json=ASK)
    assert whole.status_code == 400
    assert whole.json()["error"]["message"] == "messages: too long"
    stream = await client.post(URL, json={**ASK, "stream": True})
    assert stream.status_code == 200
    assert kinds(events(stream.text)) == ["message_start", "error", "message_stop"]


async def test_a_silent_stream_pings(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anthropic_stream, "PING_SECONDS", 0.0)
    client.tm.script = Script(hang=True)
    run = await client.app.state.chat.start(ChatRequest(messages=[HI]))
    form = MessageForm(MessagesRequest(**ASK), client.tm.server_args)
    stream = message_events(run, MessageWriter(form, run))
    assert [await anext(stream) for _ in range(2)] == [PING, PING]
    client.tm.deliver_one("a", 65)
    texts = [text async for text in _until_text(stream)]
    assert texts[0].startswith(b"event: message_start")
    await stream.aclose()
    assert client.tm.aborted == [run.group.streams[0].rid]


async def _until_text(stream: Any) -> Any:
    async for data in stream:
        if data != PING:
            yield data
            return


async def test_a_request_refused_at_the_door_is_told_in_its_stream(client: httpx.AsyncClient) -> None:
    response = await client.post(URL, json={**ASK, "temperature": -1, "stream": True})
    assert response.status_code == 200
    found = events(response.text)
    assert kinds(found) == ["message_start", "error", "message_stop"]
    assert found[0]["message"]["usage"] == {"input_tokens": 0, "output_tokens": 0}
    assert found[1]["error"]["type"] == "invalid_request_error"
    assert "temperature" in found[1]["error"]["message"]


async def test_a_request_that_can_not_be_translated_gets_its_status(client: httpx.AsyncClient) -> None:
    body = {**ASK, "messages": [{"role": "user", "content": [PIXEL]}], "stream": True}
    response = await client.post(URL, json=body)
    assert (response.status_code, error_of(response)["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize(("status", "kind"), [(503, "overloaded_error"), (500, "api_error")])
async def test_aborts_of_the_system(client: httpx.AsyncClient, status: int, kind: str) -> None:
    script(client, "ab", {"type": "abort", "message": "secret", "status_code": status}, step=1)
    response = await client.post(URL, json=ASK)
    assert response.status_code == status
    assert error_of(response) == {"type": kind, "message": "Internal server error"}
    found = events((await client.post(URL, json={**ASK, "stream": True})).text)
    assert kinds(found)[-3:] == ["content_block_stop", "error", "message_stop"]
    assert found[-2]["error"] == {"type": kind, "message": "Internal server error"}


async def test_bugs_are_told_in_the_familys_form(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sglang.api.anthropic.routes.add_sampling", lambda chat, body: 1 / 0)
    response = await client.post(URL, json=ASK)
    assert response.status_code == 500
    assert error_of(response) == {"type": "api_error", "message": "Internal server error"}


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", URL, 405, "invalid_request_error"),
        ("POST", f"{URL}/batches", 404, "not_found_error"),
        ("DELETE", f"{URL}/count_tokens", 405, "invalid_request_error"),
    ],
)
async def test_unknown_routes(client: httpx.AsyncClient, method: str, path: str, status: int, kind: str) -> None:
    response = await client.request(method, path)
    assert (response.status_code, error_of(response)["type"]) == (status, kind)
    assert int(response.headers["content-length"]) == len(response.content)


async def test_neighbours_keep_their_own_errors(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/messagesx")).json() == {"detail": "Not Found"}


async def test_large_and_foreign_bodies(make_client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sglang.api.app.MAX_BODY_BYTES", 1000)
    async with make_client() as client:
        response = await client.post(URL, content=b"x" * 2000)
        assert (response.status_code, error_of(response)["type"]) == (413, "request_too_large")
        for raw, kind in ((b"{bad", "application/json"), (b"{}", "text/plain"), (b"[]", "application/json")):
            response = await client.post(URL, content=raw, headers={"content-type": kind})
            assert (response.status_code, error_of(response)["type"]) == (400, "invalid_request_error")


async def test_keys(make_client: Any) -> None:
    async with make_client(api_key="sk") as client:
        for headers, status in (
            ({"x-api-key": "sk"}, 200), ({"authorization": "Bearer sk"}, 200), ({"x-api-key": "no"}, 401),
            ({"x-api-key": "sk", "authorization": "Bearer no"}, 200), ({"anthropic-version": "1"}, 401),
        ):  # fmt: skip
            for path in (URL, f"{URL}/count_tokens"):
                response = await client.post(path, json=ASK, headers=headers)
                assert response.status_code == status
                if status == 401:
                    assert error_of(response)["type"] == "authentication_error"
        assert (await client.post(f"{URL}/batches", headers={"x-api-key": "sk"})).status_code == 404
        assert (await client.post(URL, json=ASK)).json() == {"error": "Unauthorized"}
        assert (await client.get("/v1/models", headers={"x-api-key": "sk"})).status_code == 401


async def test_count_equals_what_the_answer_says(client: httpx.AsyncClient) -> None:
    body = {"model": "m", "messages": [HI, {"role": "assistant", "content": "Yo"}, HI], "system": "S"}
    counted = (await client.post(f"{URL}/count_tokens", json=body)).json()
    answer = (await client.post(URL, json={**body, "max_tokens": 1})).json()
    assert counted == {"input_tokens": answer["usage"]["input_tokens"]}


async def test_cached_tokens_are_told_apart_where_they_are_reported(make_client: Any) -> None:
    async with make_client(enable_cache_report=True) as client:
        answer = (await client.post(URL, json=ASK)).json()
        assert answer["usage"] == {"input_tokens": 20, "cache_read_input_tokens": 0, "output_tokens": 3}


async def test_adapters_are_named_behind_the_served_name_only(client: httpx.AsyncClient) -> None:
    for model, adapter in (("fake:a", "a"), ("claude-x:1", None), ("fake", None)):
        await client.post(URL, json={**ASK, "model": model})
        assert client.tm.submitted[-1].lora_path == adapter
