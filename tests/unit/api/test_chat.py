"""POST /v1/chat/completions: prompts, shapes, order of chunks."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from unit.api.fake_manager import FakeTokenizerManager, Script
from unit.api.sse import chunks

URL = "/v1/chat/completions"
HI = {"role": "user", "content": "Hi"}
ASK: dict[str, Any] = {"model": "m", "messages": [HI], "max_tokens": 3}


def prompt_of(tm: FakeTokenizerManager) -> str:
    ids = tm.submitted[-1].input_ids
    assert tm.tokenizer is not None
    return tm.tokenizer.decode(ids, skip_special_tokens=False)  # type: ignore[arg-type]


async def test_whole_answer_has_the_keys_of_the_contract(client: httpx.AsyncClient) -> None:
    answer = (await client.post(URL, json=ASK)).json()
    assert list(answer) == ["id", "object", "created", "model", "choices", "usage", "metadata"]
    assert answer["object"] == "chat.completion"
    message = {"role": "assistant", "content": " Paris.\n", "reasoning_content": None}
    assert answer["choices"] == [
        {"index": 0, "message": message, "logprobs": None, "finish_reason": "length", "matched_stop": None}
    ]


async def test_prompt_is_what_the_template_writes_with_one_bos(client: httpx.AsyncClient) -> None:
    await client.post(URL, json=ASK)
    assert prompt_of(client.tm) == "<s>user:Hi;<s>assistant:"


async def test_defaults_come_from_the_models_generation_config(make_client: Any) -> None:
    async with make_client() as client:
        await client.post(URL, json={"messages": [HI], "top_k": 5})
        assert client.tm.submitted[0].sampling_params == {"max_new_tokens": None, "temperature": 0.6, "top_k": 5}
    async with make_client(sampling_defaults="openai") as client:
        await client.post(URL, json={"messages": [HI]})
        assert client.tm.submitted[0].sampling_params == {"max_new_tokens": None}


async def test_max_completion_tokens_wins(client: httpx.AsyncClient) -> None:
    await client.post(URL, json={**ASK, "max_completion_tokens": 2})
    assert client.tm.submitted[0].sampling_params["max_new_tokens"] == 2


@pytest.mark.parametrize(
    ("messages", "extra", "prompt"),
    [
        ([{"role": "developer", "content": "x"}, HI], {}, "<s>system:x;<s>user:Hi;<s>assistant:"),
        ([{"role": "SYSTEM", "content": "x"}, HI], {}, "<s>system:x;<s>user:Hi;<s>assistant:"),
        ([HI, {"role": "assistant", "content": "Yo"}], {}, "<s>user:Hi;<s>user:Yo;<s>assistant:"),
        (
            [HI, {"role": "assistant", "content": "Yo"}],
            {"continue_final_message": True},
            "<s>user:Hi;<s>assistant:Yo",
        ),
        ([HI, {"role": "assistant", "content": None}, HI], {}, "<s>user:Hi;<s>assistant:;<s>user:Hi;<s>assistant:"),
        (
            [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
            {},
            "<s>user:a\nb;<s>assistant:",
        ),
        ([HI], {"chat_template_kwargs": {"k": 1}}, "<s>user:Hi;[k=1]<s>assistant:"),
        (
            [HI],
            {"reasoning_effort": "low"},
            "<s>user:Hi;[enable_thinking=True][reasoning_effort=low][thinking=True]<s>assistant:",
        ),
        (
            [HI],
            {"reasoning": {"enabled": False}},
            "<s>user:Hi;[enable_thinking=False][reasoning_effort=none][thinking=False]<s>assistant:",
        ),
    ],
)
async def test_messages_become_prompts(
    client: httpx.AsyncClient, messages: list[Any], extra: dict[str, Any], prompt: str
) -> None:
    response = await client.post(URL, json={**ASK, "messages": messages, **extra})
    assert response.status_code == 200, response.text
    assert prompt_of(client.tm) == prompt


async def test_server_template_kwargs_lie_under_those_of_the_request(make_client: Any) -> None:
    async with make_client(default_chat_template_kwargs={"k": 1, "s": 2}) as client:
        await client.post(URL, json={**ASK, "chat_template_kwargs": {"k": 3}})
        assert "[k=3][s=2]" in prompt_of(client.tm)


async def test_input_ids_replace_the_rendered_prompt(client: httpx.AsyncClient) -> None:
    await client.post(URL, json={**ASK, "input_ids": [5, 6]})
    assert client.tm.submitted[0].input_ids == [5, 6]


async def test_logprobs_carry_bytes_and_alternatives_of_their_own_position(client: httpx.AsyncClient) -> None:
    client.tm.script = Script(["a", ""], [97, 200])
    body = {**ASK, "logprobs": True, "top_logprobs": 2}
    whole = (await client.post(URL, json=body)).json()["choices"][0]["logprobs"]["content"]
    assert whole[0] == {
        "token": "a", "bytes": [97], "logprob": -0.5,
        "top_logprobs": [
            {"token": "a", "bytes": [97], "logprob": -0.5}, {"token": "b", "bytes": [98], "logprob": -1.5}
        ],
    }  # fmt: skip
    assert (whole[1]["token"], whole[1]["bytes"]) == ("\xc8", [200])
    items = chunks((await client.post(URL, json={**body, "stream": True})).text)
    streamed = [entry for item in items for entry in (item["choices"][0]["logprobs"] or {}).get("content", [])]
    assert streamed == whole


@pytest.mark.parametrize(("extra", "top"), [({"logprobs": True}, 0), ({"top_logprobs": 2}, None)])
async def test_top_logprobs_need_logprobs(client: httpx.AsyncClient, extra: dict[str, Any], top: int | None) -> None:
    choice = (await client.post(URL, json={**ASK, **extra})).json()["choices"][0]
    assert client.tm.submitted[0].top_logprobs_num == top
    assert (choice["logprobs"] is None) == (top is None)


async def test_stream_is_role_contents_finish_done(client: httpx.AsyncClient) -> None:
    client.tm.script = Script(["a", "", "b"], [1, 2, 3], {"type": "stop", "matched": 2})
    items = chunks((await client.post(URL, json={**ASK, "stream": True, "rid": "r"})).text)
    assert all(list(item) == ["id", "object", "created", "model", "choices"] for item in items)
    assert {item["id"] for item in items} == {"r"}
    assert [item["choices"][0]["delta"] for item in items] == [
        {"reasoning_content": None, "role": "assistant", "content": ""},
        {"reasoning_content": None, "content": "a"},
        {"reasoning_content": None, "content": "b"},
        {"reasoning_content": None},
    ]
    last = items[-1]["choices"][0]
    assert (last["finish_reason"], last["matched_stop"]) == ("stop", 2)
    assert all(item["choices"][0]["finish_reason"] is None for item in items[:-1])


async def test_finish_chunks_of_several_choices_come_last_in_order(client: httpx.AsyncClient) -> None:
    items = chunks((await client.post(URL, json={**ASK, "n": 2, "stream": True, "rid": "r"})).text)
    ends = [item["choices"][0] for item in items[-2:]]
    assert [(end["index"], end["finish_reason"]) for end in ends] == [(0, "length"), (1, "length")]
    for index in (0, 1):
        own = [item for item in items if item["choices"][0]["index"] == index]
        assert {item["id"] for item in own} == {f"r_{index}"}
        assert own[0]["choices"][0]["delta"]["role"] == "assistant"
        text = "".join(item["choices"][0]["delta"].get("content") or "" for item in own)
        assert text == " Paris.\n"


async def test_usage_chunk_comes_after_the_finish_and_keeps_its_nulls(client: httpx.AsyncClient) -> None:
    body = {**ASK, "stream": True, "n": 2, "stream_options": {"include_usage": True}}
    items = chunks((await client.post(URL, json=body)).text)
    assert items[-1]["choices"] == []
    prompt = items[-1]["usage"]["prompt_tokens"]
    assert items[-1]["usage"] == {
        "prompt_tokens": prompt, "total_tokens": prompt + 6, "completion_tokens": 6, "prompt_tokens_details": None,
        "reasoning_tokens": 0, "completion_tokens_details": None,
    }  # fmt: skip
    assert prompt == len(client.tm.submitted[0].input_ids)
    assert all("usage" not in item for item in items[:-1])


async def test_running_usage_is_on_every_delta(client: httpx.AsyncClient) -> None:
    body = {**ASK, "stream": True, "stream_options": {"continuous_usage_stats": True}}
    items = chunks((await client.post(URL, json=body)).text)
    assert [item["usage"]["completion_tokens"] for item in items[:-1]] == [1, 1, 2, 3]
    assert "usage" not in items[-1]


async def test_ids_and_meta_info_on_request(client: httpx.AsyncClient) -> None:
    body = {**ASK, "return_token_ids": True, "return_meta_info": True, "return_cached_tokens_details": True}
    answer = (await client.post(URL, json=body)).json()
    choice = answer["choices"][0]
    assert choice["response_token_ids"] == [10, 11, 12]
    assert choice["prompt_token_ids"] == client.tm.submitted[0].input_ids
    assert choice["meta_info"]["completion_tokens"] == 3
    assert answer["sglext"] == {"cached_tokens_details": {"device": 0, "host": 0}}


@pytest.mark.parametrize("stream", [False, True])
async def test_token_ids_by_header_or_field(client: httpx.AsyncClient, stream: bool) -> None:
    headers = {"x-sglext-return-input-ids": "1"}
    body = {**ASK, "input_ids": [5, 6], "return_output_ids_in_sglext": True, "stream": stream}
    response = await client.post(URL, json=body, headers=headers)
    answer = chunks(response.text)[-1] if stream else response.json()
    assert answer["sglext"] == {"input_ids": [5, 6], "output_ids": [[10, 11, 12]]}


@pytest.mark.parametrize("extra", [
    {"tools": []}, {"tool_choice": "none"}, {"tool_choice": "auto"}, {"response_format": {"type": "text"}},
    {"separate_reasoning": True, "stream_reasoning": True}, {"regex": ""}, {"user": "u"},
    {"messages": [{**HI, "name": "bob"}]}, {"top_p": 1}, {"temperature": 0}, {"n": 1}, {"store": True},
])  # fmt: skip
async def test_harmless_values_are_taken(client: httpx.AsyncClient, extra: dict[str, Any]) -> None:
    response = await client.post(URL, json={**ASK, **extra})
    assert response.status_code == 200, response.text


TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
BAD_TOOL = {
    "type": "function",
    "function": {"name": "b", "parameters": {"type": "object", "properties": {"a": {"type": "nonsense"}}}},
}
NAMELESS = {"type": "json_schema", "json_schema": {"name": 1, "schema": {}}}
NAMED_G = {"type": "function", "function": {"name": "g"}}


@pytest.mark.parametrize(
    ("extra", "kind", "field"),
    [
        ({"messages": None}, "Bad Request", "messages"),
        ({"messages": "hi"}, "Bad Request", "messages"),
        ({"messages": [1]}, "Bad Request", "messages.0"),
        ({"messages": [{"role": "user"}]}, "Bad Request", "messages.0"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "Bad Request", "messages.0.role"),
        ({"messages": [{"role": "User", "content": "x"}]}, "Bad Request", "messages.0.role"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "Bad Request", "messages.0.content.0"),
        ({"messages": [{"role": "user", "content": [{"type": "zip"}]}]}, "Bad Request", "messages.0.content.0.type"),
        ({"max_tokens": 0}, "Bad Request", "max_tokens"),
        ({"top_logprobs": -1}, "Bad Request", "top_logprobs"),
        ({"messages": []}, "BadRequestError", "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "BadRequestError", "Tool role not supported"),
        ({"tools": [{"type": "function", "function": {"description": "x"}}]}, "Bad Request", "tools.0.function.name"),
        ({"tools": [TOOL, BAD_TOOL]}, "BadRequestError", "tools[1].function.parameters: properties.a.type"),
        ({"tools": [TOOL], "tool_choice": NAMED_G}, "BadRequestError", "'g'"),
        ({"tool_choice": "required"}, "BadRequestError", "tool_choice"),
        ({"tool_choice": NAMED_G}, "BadRequestError", "tool_choice"),
        ({"response_format": {"type": "json"}}, "BadRequestError", "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "BadRequestError", "response_format.json_schema.schema"),
        ({"response_format": NAMELESS}, "BadRequestError", "response_format.json_schema.name"),
        ({"response_format": {"type": "structural_tag"}}, "BadRequestError", "structures"),
        ({"response_format": {"type": "json_object"}, "regex": "a"}, "BadRequestError", "regex"),
        ({"return_routed_experts": True}, "BadRequestError", "return_routed_experts"),
        ({"reasoning_effort": "wild"}, "BadRequestError", "reasoning_effort"),
        ({"chat_template_kwargs": {"chat_template": "x"}}, "BadRequestError", "chat_template"),
        ({"chat_template_kwargs": {"messages": []}}, "BadRequestError", "messages"),
        ({"stream": True, "return_meta_info": True}, "BadRequestError", "return_meta_info"),
        ({"temperature": -1}, "BadRequestError", "temperature"),
    ],
)
async def test_bad_values_name_the_field(
    client: httpx.AsyncClient, extra: dict[str, Any], kind: str, field: str
) -> None:
    response = await client.post(URL, json={**ASK, **extra})
    assert response.status_code == 400, response.text
    assert response.json()["type"] == kind
    assert field in response.json()["message"]


@pytest.mark.parametrize("kind", ["image_url", "video_url", "audio_url", "input_audio", "tool_reference"])
async def test_media_on_a_text_model_names_the_part_type(client: httpx.AsyncClient, kind: str) -> None:
    content = [{"type": "text", "text": "What?"}, {"type": kind, kind: {"url": "data:,x"}}]
    response = await client.post(URL, json={**ASK, "messages": [{"role": "user", "content": content}]})
    assert response.status_code == 400
    assert kind in response.json()["message"]


@pytest.mark.parametrize("part", ["tokenizer", "chat_template"])
async def test_model_without_template_or_tokenizer_says_so(client: httpx.AsyncClient, part: str) -> None:
    setattr(client.tm, part, None)
    response = await client.post(URL, json=ASK)
    assert response.status_code == 400
    assert part.replace("_", " ") in response.json()["message"]
