"""POST /v1/responses: whole answers and streams over the fake manager."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from unit.api.fake_manager import Script
from unit.api.test_bodies import JSON, RAW

URL = "/v1/responses"
ASK = {"model": "fake", "input": "Hi", "max_output_tokens": 3}
STOP = {"type": "stop", "matched": 257}
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}}
CALL = ["I ask. ", '<tool_call>\n{"name": "f", "argu', 'ments": {"n": 1}}\n</tool_call>']


@pytest.fixture
async def qwen(make_client: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with make_client(tool_call_parser="qwen25", reasoning_parser="qwen3") as client:
        yield client


def script(client: Any, *pieces: str, finish: dict[str, Any] | None = None) -> None:
    client.tm.script = Script(list(pieces), list(range(65, 65 + len(pieces))), finish or STOP)


def sse(body: str) -> list[dict[str, Any]]:
    """Decoded events; checks the framing, the names and the numbers."""
    assert body.endswith("\n\n")
    found = []
    for block in body[:-2].split("\n\n"):
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    return found


def kinds(events: list[dict[str, Any]]) -> list[str]:
    """Types without their common prefix; runs of deltas appear once."""
    names = [event["type"].removeprefix("response.") for event in events]
    return [name for i, name in enumerate(names) if not (name.endswith("delta") and names[i - 1] == name)]


def plain(value: Any) -> Any:
    """Without what differs from call to call."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if k not in ("id", "call_id", "item_id", "created_at")}
    return [plain(item) for item in value] if isinstance(value, list) else value


async def streamed(client: httpx.AsyncClient, **body: Any) -> list[dict[str, Any]]:
    return sse((await client.post(URL, json={**ASK, **body, "stream": True})).text)


async def whole(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    response = await client.post(URL, json={**ASK, **body})
    assert response.status_code == 200, response.text
    return response.json()  # type: ignore[no-any-return]


async def test_whole_answer_has_the_keys_of_the_contract(client: httpx.AsyncClient) -> None:
    script(client, " Paris", ".")
    answer = await whole(client)
    assert answer["id"].startswith("resp_")
    message = answer["output"][0]
    assert message["id"].startswith("msg_")
    assert plain(answer) == {
        "object": "response", "model": "fake", "status": "completed",
        "output": [{
            "content": [{"annotations": [], "text": " Paris.", "type": "output_text", "logprobs": None}],
            "role": "assistant", "status": "completed", "type": "message", "phase": "final_answer",
        }],
        "usage": {
            "input_tokens": 20, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 22,
        },
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None,
        "instructions": None, "max_output_tokens": 3, "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None}, "store": True, "temperature": None,
        "text": {"format": {"type": "text"}}, "top_p": None, "truncation": "disabled", "user": None, "metadata": {},
    }  # fmt: skip


async def test_the_request_is_echoed(client: httpx.AsyncClient) -> None:
    given = {
        "instructions": "Be brief.", "temperature": 0.5, "top_p": 0.9, "metadata": {"a": "b"}, "user": "u",
        "parallel_tool_calls": False, "store": False, "truncation": "auto", "tools": [TOOL], "tool_choice": "none",
    }  # fmt: skip
    answer = await whole(client, **given)
    rest = {"description": None, "strict": False, "tools": None, "defer_loading": None, "format": None}
    given["tools"] = [{**TOOL, **rest}]
    assert {key: answer[key] for key in given} == given


@pytest.mark.parametrize("model", [{}, {"model": None}, {"model": "fake"}, {"model": "default"}])
async def test_the_model_may_be_left_out(client: httpx.AsyncClient, model: dict[str, Any]) -> None:
    response = await client.post(URL, json={"input": "Hi", **model})
    assert response.json()["model"] == "fake"


async def test_parameters_travel_exactly(client: httpx.AsyncClient) -> None:
    given = {"top_k": 5, "min_p": 0.1, "stop": ["x"], "seed": 3, "frequency_penalty": 1, "priority": 2}
    await whole(client, **given)
    obj = client.tm.submitted[0]
    assert obj.sampling_params == {
        "temperature": 0.6, "top_k": 5, "max_new_tokens": 3, "min_p": 0.1, "stop": ["x"], "sampling_seed": 3,
        "frequency_penalty": 1,
    }  # fmt: skip
    assert obj.priority == 2


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, 0.6),  # the model's own
        ({"sampling_defaults": "openai"}, 0.7),
        ({"sampling_defaults": "openai", "preferred_sampling_params": {"temperature": 0.1}}, None),
    ],
)
async def test_default_temperature(make_client: Any, flags: dict[str, Any], expected: float | None) -> None:
    async with make_client(**flags) as client:
        await whole(client)
        assert client.tm.submitted[0].sampling_params.get("temperature") == expected


async def test_stream_follows_the_documented_order_and_ends_without_done(client: httpx.AsyncClient) -> None:
    script(client, " Paris", ".")
    events = await streamed(client)
    assert kinds(events) == [
        "created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.done",
        "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    assert [event["delta"] for event in events if event["type"].endswith("delta")] == [" Paris", "."]
    added, message = events[2]["item"], events[-1]["response"]["output"][0]
    assert (added["status"], added["content"], added["id"]) == ("in_progress", [], message["id"])
    assert {event["item_id"] for event in events if "item_id" in event} == {message["id"]}
    assert events[0]["response"]["status"] == events[1]["response"]["status"] == "in_progress"
    assert events[0]["response"]["text"] is None


VARIANTS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "text": ([" Paris", "."], {}),
    "nothing": ([""], {}),
    "logprobs": (["a", "b"], {"include": ["message.output_text.logprobs"], "top_logprobs": 2}),
    "tool text": (["no ", "call"], {"tools": [TOOL]}),
    "call": (CALL, {"tools": [TOOL]}),
    "two calls": ([*CALL[1:], *CALL[1:]], {"tools": [TOOL]}),
    "custom": (
        ['<tool_call>\n{"name": "f", "arguments": {"input": "a\\n\\"b"}}\n</tool_call>'],
        {"tools": [{"type": "custom", "name": "f"}]},
    ),
    "thoughts": (["<think>hm", "m</think>", "yes"], {}),
    "thoughts and call": (["<think>hm</think>", *CALL], {"tools": [TOOL], "reasoning": {"summary": "auto"}}),
    "only thoughts": (["<think>hm"], {"include": ["reasoning.encrypted_content"]}),
}


@pytest.mark.parametrize("name", VARIANTS)
async def test_stream_ends_with_the_whole_answer(qwen: httpx.AsyncClient, name: str) -> None:
    pieces, body = VARIANTS[name]
    script(qwen, *pieces)
    answer = await whole(qwen, max_output_tokens=None, **body)
    events = await streamed(qwen, max_output_tokens=None, **body)
    assert plain(events[-1]["response"]) == plain(answer)
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"]


@pytest.mark.parametrize("name", VARIANTS)
async def test_deltas_join_to_what_the_items_say(qwen: httpx.AsyncClient, name: str) -> None:
    pieces, body = VARIANTS[name]
    script(qwen, *pieces)
    events = await streamed(qwen, max_output_tokens=None, **body)
    joined: dict[tuple[str, str], str] = {}
    whole_texts: dict[tuple[str, str], str] = {}
    for event in events:
        kind = event["type"].removeprefix("response.")
        if kind.endswith(".delta"):
            key = (event["item_id"], kind.removesuffix(".delta"))
            joined[key] = joined.get(key, "") + event["delta"]
        for field in ("text", "arguments", "input"):
            if kind.endswith(".done") and field in event:
                whole_texts[event["item_id"], kind.removesuffix(".done")] = event[field]
    assert {key: joined.get(key, "") for key in whole_texts} == whole_texts


async def test_a_message_that_leads_to_a_call_is_commentary(qwen: httpx.AsyncClient) -> None:
    script(qwen, *CALL)
    events = await streamed(qwen, max_output_tokens=None, tools=[TOOL])
    assert kinds(events)[2:-1] == [
        "output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done",
        "output_item.done", "output_item.added", "function_call_arguments.delta", "function_call_arguments.done",
        "output_item.done",
    ]  # fmt: skip
    message, call = events[-1]["response"]["output"]
    assert (message["phase"], message["content"][0]["text"]) == ("commentary", "I ask.")
    assert (call["type"], call["name"], json.loads(call["arguments"])) == ("function_call", "f", {"n": 1})
    assert call["id"].startswith("fc_") and call["call_id"].startswith("call_")
    assert next(e for e in events if e["type"].endswith("item.added"))["item"]["phase"] == "commentary"


async def test_a_message_without_a_call_is_the_final_answer(qwen: httpx.AsyncClient) -> None:
    script(qwen, "no ", "call")
    events = await streamed(qwen, max_output_tokens=None, tools=[TOOL])
    assert [e["item"]["phase"] for e in events if e["type"].endswith("item.added")] == ["final_answer"]


async def test_a_call_cut_by_length_is_shown_but_not_part_of_the_answer(qwen: httpx.AsyncClient) -> None:
    cut = [CALL[0], '<tool_call>\n{"name": "f", "arguments": {"n": 1']
    script(qwen, *cut, finish={"type": "length", "length": 2})
    events = await streamed(qwen, tools=[TOOL])
    assert events[-1]["type"] == "response.incomplete"
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["message"]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert [(item["type"], item["status"]) for item in done[1:]] == [("function_call", "incomplete")]


async def test_thoughts_are_an_item_of_their_own_and_come_back_as_input(qwen: httpx.AsyncClient) -> None:
    script(qwen, "<think>hm", "m</think>", "yes")
    events = await streamed(qwen, include=["reasoning.encrypted_content"], reasoning={"summary": "auto"})
    assert kinds(events)[2:12] == [
        "output_item.added", "content_part.added", "reasoning_summary_part.added", "reasoning_text.delta",
        "reasoning_summary_text.delta", "reasoning_text.delta", "reasoning_summary_text.delta", "reasoning_text.done",
        "content_part.done", "reasoning_summary_text.done",
    ]  # fmt: skip
    thoughts, message = events[-1]["response"]["output"]
    assert thoughts["id"].startswith("rs_")
    assert thoughts["content"] == [{"type": "reasoning_text", "text": "hmm"}]
    assert thoughts["summary"] == [{"type": "summary_text", "text": "hmm"}]
    assert message["content"][0]["text"] == "yes"
    for item in (thoughts, {"type": "reasoning", "encrypted_content": thoughts["encrypted_content"], "summary": []}):
        await whole(qwen, input=[item, message, {"role": "user", "content": "go on"}])


@pytest.mark.parametrize("stream", [False, True])
async def test_logprobs_have_one_entry_a_token(client: httpx.AsyncClient, stream: bool) -> None:
    script(client, "a", "", "b", "")  # the third step brings the text of two tokens, the last one none
    body = {"include": ["message.output_text.logprobs"], "top_logprobs": 2, "max_output_tokens": 4}
    answer = (await streamed(client, **body))[-1]["response"] if stream else await whole(client, **body)
    entries = answer["output"][0]["content"][0]["logprobs"]
    assert [entry["token"] for entry in entries] == ["A", "B", "C", "D"]
    assert [len(entry["top_logprobs"]) for entry in entries] == [2] * 4
    assert entries[1]["bytes"] == [66]


async def test_length_is_incomplete(client: httpx.AsyncClient) -> None:
    answer = await whole(client)
    assert (answer["status"], answer["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert answer["usage"]["output_tokens"] == 3  # exactly the limit
    assert (await streamed(client))[-1]["type"] == "response.incomplete"


async def test_abort_is_failed(client: httpx.AsyncClient) -> None:
    script(client, "a", finish={"type": "abort", "message": "Aborted"})
    answer = await whole(client)
    assert (answer["status"], answer["error"]) == ("failed", {"code": "server_error", "message": "Aborted"})
    assert (await streamed(client))[-1]["type"] == "response.failed"


@pytest.mark.parametrize("stream", [False, True])
async def test_refused_by_the_scheduler_keeps_its_status(client: httpx.AsyncClient, stream: bool) -> None:
    script(client, "", finish={"type": "abort", "message": "queue is full", "status_code": 503})
    response = await client.post(URL, json={**ASK, "stream": stream})
    assert response.status_code == 503
    assert response.json() == {
        "error": {"message": "queue is full", "type": "server_error", "param": None, "code": 503}
    }


async def test_a_late_failure_ends_the_stream_as_failed(client: httpx.AsyncClient) -> None:
    script(client, "a", "", finish={"type": "abort", "message": "out of memory", "status_code": 500})
    events = await streamed(client)
    assert kinds(events)[-4:] == ["output_text.done", "content_part.done", "output_item.done", "failed"]
    final = events[-1]["response"]
    assert (final["status"], final["error"]["message"]) == ("failed", "out of memory")
    assert final["output"][0]["content"][0]["text"] == "a"


@pytest.mark.parametrize(
    ("change", "param", "words"),
    [
        ({"input": []}, None, "input"),
        ({"input": None}, None, "input"),
        ({"input": ["x"]}, None, "input"),
        ({"input": [{"type": "web_search_call"}]}, None, "input[0].type"),
        ({"input": [{"role": "tool", "content": "x"}]}, None, "input[0].role"),
        ({"input": [{"role": "user"}]}, None, "input[0].content"),
        ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, None, "input[0].content[0]"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, None, "input[0].content[0]"),
        ({"input": [{"role": "user", "content": [{"type": []}]}]}, None, "input[0].content[0]"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, None, "image_url"),
        ({"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]}, None, "input[0].call_id"),
        ({"input": [{"type": "function_call_output", "call_id": "c"}]}, None, "input[0].output"),
        ({"input": [{"type": "reasoning", "encrypted_content": "%"}]}, None, "input[0].encrypted_content"),
        ({"input": [{"type": "reasoning", "encrypted_content": 5}]}, None, "input[0].encrypted_content"),
        ({"input": [{"type": "reasoning", "content": 5}]}, None, "input[0].content"),
        ({"max_output_tokens": 0}, None, "max_output_tokens"),
        ({"temperature": -1}, None, "temperature"),
        ({"temperature": "hot"}, None, "temperature"),
        ({"top_logprobs": 21}, None, "top_logprobs"),
        ({"metadata": {str(i): "" for i in range(17)}}, None, "metadata"),
        ({"metadata": {"a": 1}}, None, "metadata"),
        ({"request_id": "a b"}, None, "request_id"),
        ({"text": {"format": {"type": "json_schema"}}}, None, "schema"),
        ({"text": {"format": {"type": "yaml"}}}, None, "json_schema"),
        ({"reasoning": {"effort": "heavy"}}, None, "reasoning_effort"),
        ({"conversation": "conv_1"}, "conversation", "previous_response_id"),
        ({"prompt": {"id": "p"}}, "prompt", "instructions"),
        ({"tool_choice": "required"}, "tool_choice", "needs a tool"),
        ({"tool_choice": "required", "tools": [{"type": "web_search"}]}, "tool_choice", "needs a tool"),
        ({"tool_choice": "sometimes"}, "tool_choice", "sometimes"),
        ({"tool_choice": {"type": "function", "name": "g"}, "tools": [TOOL]}, "tool_choice", "'g'"),
        ({"tool_choice": {"type": "web_search"}, "tools": [TOOL]}, "tool_choice", "web_search"),
        ({"tool_choice": {"type": "allowed_tools"}, "tools": [TOOL]}, "tool_choice", "list of tools"),
        ({"tools": [{"type": "function"}]}, "tools", "tools[0].name"),
        ({"tools": [{**TOOL, "parameters": {"type": "nonsense"}}]}, None, "tools[0]"),
        ({"background": True}, "background", "--enable-response-store"),
        ({"background": True, "store": False}, "background", "store"),
        ({"previous_response_id": "resp_1"}, "previous_response_id", "--enable-response-store"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_bad_requests_get_a_400_that_names_the_field(
    client: httpx.AsyncClient, change: dict[str, Any], param: str | None, words: str, stream: bool
) -> None:
    response = await client.post(URL, json={**ASK, **change, "stream": stream})
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, 400)
    assert words in error["message"]


@pytest.mark.parametrize("model", ["nope", "nope:a", "x" * 300])
async def test_unknown_model_is_a_404(client: httpx.AsyncClient, model: str) -> None:
    response = await client.post(URL, json={**ASK, "model": model})
    assert response.status_code == 404
    error = response.json()["error"]
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", "model", 404)


async def test_adapter_in_the_model_name(client: httpx.AsyncClient) -> None:
    answer = await whole(client, model="fake:sql")
    assert client.tm.submitted[0].lora_path == "sql"
    assert answer["model"] == "fake:sql"


@pytest.mark.parametrize(
    ("form", "grammar"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, '{"type": "object"}'),
        ({"type": "json_schema", "name": "x", "schema": {"type": "null"}, "strict": True}, '{"type": "null"}'),
    ],
)
async def test_text_format_becomes_a_grammar(client: httpx.AsyncClient, form: Any, grammar: str | None) -> None:
    answer = await whole(client, text={"format": form})
    assert client.tm.submitted[0].sampling_params.get("json_schema") == grammar
    assert answer["text"]["format"] == form


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}, ["f"]),
        ("auto", ["f", "g"]),
    ],
)
async def test_allowed_tools_narrow_the_list(make_client: Any, choice: Any, names: list[str]) -> None:
    async with make_client(tool_call_parser="qwen25") as client:
        call = '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>'
        script(client, call)
        tools = [TOOL, {**TOOL, "name": "g"}, {"type": "web_search"}]
        answer = await whole(client, tools=tools, tool_choice=choice)
        called = [item["name"] for item in answer["output"] if item["type"] == "function_call"]
        assert called == (["g"] if "g" in names else [])
        assert [tool["type"] for tool in answer["tools"]] == ["function", "function", "web_search"]


async def test_required_call_is_forced_by_a_grammar(client: httpx.AsyncClient) -> None:
    script(client, '[{"name": "f", "parameters": {"n": 2}}]')
    answer = await whole(client, tools=[TOOL], tool_choice="required")
    assert "json_schema" in client.tm.submitted[0].sampling_params
    assert [(item["type"], item["arguments"]) for item in answer["output"]] == [("function_call", '{"n": 2}')]


async def test_broken_bodies_get_the_familys_own_error(client: httpx.AsyncClient) -> None:
    for raw in RAW:
        response = await client.post(URL, content=raw, headers=JSON)
        assert response.status_code == 400, raw[:40]
        assert response.json()["error"]["type"] == "invalid_request_error"
    response = await client.post(URL, content=b"{}", headers={"content-type": "text/plain"})
    assert "application/json" in response.json()["error"]["message"]
