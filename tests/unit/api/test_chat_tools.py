"""Tool calls and thinking through /v1/chat/completions, whole and streamed, over scripted tokens."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from unit.api.fake_manager import Script
from unit.api.sse import chunks

URL = "/v1/chat/completions"
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
NOW = {"type": "function", "function": {"name": "now"}}
ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}], "tools": [WEATHER, NOW]}
CALL = 'Sure.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>'
STOP = {"type": "stop", "matched": 257}


def script(text: str, finish: dict[str, Any] | None = STOP) -> Script:
    """Pieces of three characters."""
    pieces = [text[at : at + 3] for at in range(0, len(text), 3)]
    return Script(pieces, [97] * len(pieces), finish)


async def ask(client: httpx.AsyncClient, **extra: Any) -> dict[str, Any]:
    response = await client.post(URL, json={**ASK, **extra})
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]  # type: ignore[no-any-return]


async def ask_stream(client: httpx.AsyncClient, **extra: Any) -> list[dict[str, Any]]:
    response = await client.post(URL, json={**ASK, **extra, "stream": True})
    assert response.status_code == 200, response.text
    return [item["choices"][0] for item in chunks(response.text) if item["choices"]]


def joined(items: list[dict[str, Any]]) -> dict[str, Any]:
    """What an SDK makes of the chunks; the rules for tool-call deltas are checked on the way."""
    message: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": []}
    for item in items:
        delta = item["delta"]
        message["content"] += delta.get("content") or ""
        message["reasoning_content"] += delta.get("reasoning_content") or ""
        for call in delta.get("tool_calls", ()):
            if call["index"] == len(message["tool_calls"]):
                assert call["id"].startswith("call_")
                assert call["function"]["name"]
                message["tool_calls"].append({"id": call["id"], **call["function"]})
            else:
                assert call["index"] == len(message["tool_calls"]) - 1
                assert call["id"] is None
                assert call["function"]["name"] is None
                message["tool_calls"][-1]["arguments"] += call["function"]["arguments"]
    return message


async def test_a_call_is_taken_out_of_the_text(make_client: Any) -> None:
    async with make_client(tool_call_parser="qwen25") as client:
        client.tm.script = script(CALL)
        choice = await ask(client)
        call = choice["message"]["tool_calls"][0]
        assert call.pop("id").startswith("call_")
        assert call == {
            "index": 0, "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'}
        }  # fmt: skip
        assert (choice["message"]["content"], choice["finish_reason"], choice["matched_stop"]) == (
            "Sure.", "tool_calls", None
        )  # fmt: skip
        items = await ask_stream(client)
        message = joined(items)
        assert message["content"] == "Sure."
        assert [(call["name"], call["arguments"]) for call in message["tool_calls"]] == [
            ("get_weather", '{"city": "Rome"}')
        ]
        assert (items[-1]["finish_reason"], items[-1]["matched_stop"]) == ("tool_calls", 257)
        assert list(items[1]["delta"]) == ["role", "content", "reasoning_content"]
        assert client.tm.submitted[0].sampling_params["skip_special_tokens"] is False


@pytest.mark.parametrize(
    ("text", "finish", "calls", "reason", "streamed"),
    [
        (CALL[:-20], {"type": "length", "length": 9}, 0, "length", "length"),
        (CALL.replace('"Rome"', "x"), STOP, 0, "stop", "tool_calls"),
        (CALL.replace("get_weather", "nope"), STOP, 0, "stop", "stop"),
        ("Hello.", STOP, 0, "stop", "stop"),
        (CALL + CALL, STOP, 2, "tool_calls", "tool_calls"),
    ],
)
async def test_finish_reasons(
    make_client: Any, text: str, finish: dict[str, Any], calls: int, reason: str, streamed: str
) -> None:
    async with make_client(tool_call_parser="qwen25") as client:
        client.tm.script = script(text, finish)
        choice = await ask(client)
        assert len(choice["message"].get("tool_calls", ())) == calls
        assert choice["finish_reason"] == reason
        assert (await ask_stream(client))[-1]["finish_reason"] == streamed


async def test_without_a_parser_or_with_choice_none_nothing_is_looked_for(make_client: Any) -> None:
    for flags, extra in (({}, {}), ({"tool_call_parser": "qwen25"}, {"tool_choice": "none"})):
        async with make_client(**flags) as client:
            client.tm.script = script(CALL)
            choice = await ask(client, **extra)
            assert choice["message"] == {"role": "assistant", "content": CALL, "reasoning_content": None}
            assert choice["finish_reason"] == "stop"


NAMED = {"type": "function", "function": {"name": "now"}}


@pytest.mark.parametrize("choice", ["required", NAMED])
async def test_forced_calls_bring_a_grammar_and_are_read_back(make_client: Any, choice: Any) -> None:
    async with make_client() as client:
        client.tm.script = script('[{"name": "now", "parameters": {}}]')
        answer = await ask(client, tool_choice=choice)
        assert [call["function"] for call in answer["message"]["tool_calls"]] == [{"name": "now", "arguments": "{}"}]
        assert (answer["message"]["content"], answer["finish_reason"]) == ("", "tool_calls")
        schema = json.loads(client.tm.submitted[0].sampling_params["json_schema"])
        branches = schema["items"]["anyOf"] if choice == "required" else [schema["items"]]
        names = [branch["properties"]["name"]["const"] for branch in branches]
        assert names == (["get_weather", "now"] if choice == "required" else ["now"])
        assert schema.get("maxItems") == (None if choice == "required" else 1)
        message = joined(await ask_stream(client, tool_choice=choice))
        assert [call["arguments"] for call in message["tool_calls"]] == ["{}"]


async def test_forced_calls_in_the_models_own_format(make_client: Any) -> None:
    async with make_client(tool_call_parser="qwen25") as client:
        client.tm.script = script(CALL.removeprefix("Sure.\n"))
        answer = await ask(client, tool_choice="required", parallel_tool_calls=False)
        assert answer["finish_reason"] == "tool_calls"
        tree = json.loads(client.tm.submitted[0].sampling_params["structural_tag"])["format"]
        assert (tree["type"], tree["at_least_one"], tree["stop_after_first"]) == ("tags_with_separator", True, True)
        assert [tag["begin"] for tag in tree["tags"]] == [
            '<tool_call>\n{"name": "get_weather", "arguments": ',
            '<tool_call>\n{"name": "now", "arguments": ',
        ]
        assert tree["tags"][0]["content"]["json_schema"] == WEATHER["function"]["parameters"]


async def test_references_in_parameters_keep_their_target(make_client: Any) -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "now", "parameters": node}}
    async with make_client() as client:
        client.tm.script = script("[]")
        await ask(client, tools=[tool], tool_choice="required")
        schema = json.loads(client.tm.submitted[0].sampling_params["json_schema"])
        assert schema["items"]["properties"]["parameters"] == {"$ref": "#/$defs/tool_0"}
        assert schema["$defs"]["tool_0"]["properties"]["next"] == {"$ref": "#/$defs/tool_0/$defs/n"}


async def test_strict_tools_are_held_to_their_schema_under_auto(make_client: Any) -> None:
    strict = {"type": "function", "function": {**WEATHER["function"], "strict": True}}  # type: ignore[dict-item]
    async with make_client(tool_call_parser="qwen25") as client:
        client.tm.script = script("Hello.")
        await ask(client)
        assert "structural_tag" not in client.tm.submitted[0].sampling_params
        await ask(client, tools=[strict, NOW])
        tree = json.loads(client.tm.submitted[1].sampling_params["structural_tag"])["format"]
        schemas = [tag["content"]["json_schema"] for tag in tree["tags"]]
        assert schemas == [WEATHER["function"]["parameters"], {"type": "object"}]  # type: ignore[index]
        await ask(client, tools=[strict], response_format={"type": "json_object"})
        assert client.tm.submitted[2].sampling_params["json_schema"] == '{"type": "object"}'
        assert "structural_tag" not in client.tm.submitted[2].sampling_params


async def test_forced_calls_and_other_constraints(make_client: Any) -> None:
    async with make_client() as client:
        response = await client.post(URL, json={**ASK, "tool_choice": "required", "regex": "a"})
        assert response.status_code == 400
        assert "regex" in response.json()["message"]
        client.tm.script = script('[{"name": "now", "parameters": {}}]')
        answer = await ask(client, tool_choice="required", response_format={"type": "json_object"})
        assert answer["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("stream", [False, True])
async def test_every_token_keeps_its_logprob(make_client: Any, stream: bool) -> None:
    async with make_client(tool_call_parser="qwen25") as client:
        client.tm.script = script(CALL)
        extra = {"logprobs": True, "top_logprobs": 1}
        count = len(client.tm.script.pieces)
        if stream:
            items = await ask_stream(client, **extra)
            assert sum(len((item["logprobs"] or {"content": ()})["content"]) for item in items) == count
        else:
            assert len((await ask(client, **extra))["logprobs"]["content"]) == count


THOUGHT = "<think>\nplan</think>\n\nanswer"


async def test_thoughts_are_separated_counted_and_streamed(make_client: Any) -> None:
    async with make_client(reasoning_parser="qwen3") as client:
        client.tm.script = Script(["<think>", "pl", "an", "</think>", "an", "swer"], list(range(280, 286)), STOP)
        client.tm.tokenizer.specials |= dict(zip(range(280, 286), client.tm.script.pieces, strict=True))
        body = {"messages": ASK["messages"]}
        answer = (await client.post(URL, json=body)).json()
        assert answer["choices"][0]["message"] == {
            "role": "assistant", "content": "answer", "reasoning_content": "plan"
        }  # fmt: skip
        assert answer["usage"]["reasoning_tokens"] == 4
        assert answer["usage"]["completion_tokens_details"] == {"reasoning_tokens": 4}
        items = chunks((await client.post(URL, json={**body, "stream": True})).text)
        deltas = [item["choices"][0]["delta"] for item in items]
        assert deltas[1:] == [
            {"reasoning_content": "pl"},
            {"reasoning_content": "an"},
            {"reasoning_content": None, "content": "an"},
            {"reasoning_content": None, "content": "swer"},
            {"reasoning_content": None},
        ]
        assert client.tm.submitted[0].require_reasoning is True


@pytest.mark.parametrize(
    ("extra", "content", "thoughts"),
    [
        ({}, "\n\nanswer", "\nplan"),
        ({"separate_reasoning": False}, THOUGHT, ""),
        ({"stream_reasoning": False}, "\n\nanswer", "\nplan"),
        ({"chat_template_kwargs": {"enable_thinking": False}}, "\n\nanswer", "\nplan"),
    ],
)
async def test_thinking_options(make_client: Any, extra: dict[str, Any], content: str, thoughts: str) -> None:
    async with make_client(reasoning_parser="qwen3") as client:
        client.tm.script = script(THOUGHT)
        message = (await ask(client, tools=None, **extra))["message"]
        assert (message["content"], message["reasoning_content"] or "") == (content, thoughts)
        streamed = joined(await ask_stream(client, tools=None, **extra))
        assert (streamed["content"], streamed["reasoning_content"]) == (content, thoughts)


async def test_the_prompt_says_whether_thinking_is_open(make_client: Any) -> None:
    """The fake template ends every prompt with "assistant:", so the continued message decides."""
    async with make_client(reasoning_parser="qwen3") as client:
        client.tm.script = script("plan</think>answer")
        for opening, reasoning in (("<think>I ", "plan"), ("<think>I</think>", None), ("", None)):
            messages = [*ASK["messages"], {"role": "assistant", "content": opening}]
            body = {"messages": messages, "continue_final_message": True}
            message = (await client.post(URL, json=body)).json()["choices"][0]["message"]
            assert message["reasoning_content"] == reasoning, opening


async def test_adapters_are_refused_by_name(client: httpx.AsyncClient) -> None:
    for model in ("fake", "fake:", "other"):
        assert (await client.post(URL, json={"model": model, "messages": ASK["messages"]})).status_code == 200
        assert client.tm.submitted[-1].lora_path is None  # type: ignore[attr-defined]
    for model in ("fake:a", "other:a"):
        await client.post(URL, json={"model": model, "messages": ASK["messages"]})
        assert client.tm.submitted[-1].lora_path == "a"  # type: ignore[attr-defined]


async def test_a_trailing_assistant_message_can_keep_its_role(make_client: Any) -> None:
    messages = [*ASK["messages"], {"role": "assistant", "content": "Yo"}]
    for flags, extra in (({}, {"keep_final_role": True}), ({"keep_final_role": True}, {})):
        async with make_client(**flags) as client:
            await client.post(URL, json={"messages": messages, **extra})
            prompt = client.tm.tokenizer.decode(client.tm.submitted[0].input_ids, skip_special_tokens=False)
            assert prompt == "<s>user:Hi;<s>assistant:Yo;<s>assistant:"


@pytest.mark.parametrize(
    ("path", "body", "answer"),
    [
        (
            "/parse_function_call",
            {"text": CALL + " bye", "tools": [WEATHER], "tool_call_parser": "qwen25"},
            {
                "normal_text": "Sure.",
                "calls": [{"tool_index": 0, "name": "get_weather", "parameters": '{"city": "Rome"}'}],
            },
        ),
        (
            "/parse_function_call",
            {"text": CALL[:-18], "tools": [WEATHER], "tool_call_parser": "qwen25"},
            {"normal_text": "Sure.", "calls": []},
        ),
        (
            "/separate_reasoning",
            {"text": "<think>a\nb</think>\n\nAnswer", "reasoning_parser": "qwen3"},
            {"reasoning_text": "a\nb", "text": "\n\nAnswer"},
        ),
        (
            "/separate_reasoning",
            {
                "text": "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
                "reasoning_parser": "gpt-oss",
                "return_blocks": True,
            },
            {
                "reasoning_text": "a",
                "text": "b",
                "reasoning_blocks": ["a"],
                "text_blocks": ["b"],
                "blocks": [{"type": "reasoning", "text": "a"}, {"type": "text", "text": "b"}],
            },
        ),
    ],
)
async def test_helper_routes(
    client: httpx.AsyncClient, path: str, body: dict[str, Any], answer: dict[str, Any]
) -> None:
    response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    assert response.json() == answer


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/parse_function_call", {"text": "x", "tools": [], "tool_call_parser": "nope"}),
        ("/separate_reasoning", {"text": "x", "reasoning_parser": "nope"}),
    ],
)
async def test_helper_routes_refuse_unknown_parsers(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> None:
    response = await client.post(path, json=body)
    assert response.status_code == 400
    assert "'nope' is not known; accepted: " in response.text
