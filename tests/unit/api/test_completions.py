"""POST /v1/completions: shapes, order and counts of whole and streamed answers."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from unit.api.fake_manager import Script
from unit.api.sse import chunks

URL = "/v1/completions"
ASK = {"model": "m", "prompt": "Hi", "max_tokens": 3}


async def test_whole_answer_has_the_keys_and_counts_of_the_contract(client: httpx.AsyncClient) -> None:
    answer = (await client.post(URL, json=ASK)).json()
    assert list(answer) == ["id", "object", "created", "model", "choices", "usage", "metadata"]
    assert answer["object"] == "text_completion"
    assert answer["model"] == "m"
    assert answer["choices"] == [
        {"index": 0, "text": " Paris.\n", "logprobs": None, "finish_reason": "length", "matched_stop": None}
    ]
    assert answer["usage"] == {
        "prompt_tokens": 3, "total_tokens": 6, "completion_tokens": 3, "prompt_tokens_details": None,
        "reasoning_tokens": 0, "completion_tokens_details": None,
    }  # fmt: skip
    span = {"version": "default", "start": 0, "end": 3}
    assert answer["metadata"] == {"weight_version": "default", "weight_versions": [span]}


async def test_defaults_are_left_to_the_server_and_max_tokens_is_16(client: httpx.AsyncClient) -> None:
    await client.post(URL, json={"prompt": "Hi", "temperature": None, "n": None})
    obj = client.tm.submitted[0]
    assert obj.sampling_params == {"max_new_tokens": 16}
    assert (obj.text, obj.stream, obj.return_logprob) == ("Hi", False, None)


async def test_parameters_travel_under_their_native_names(client: httpx.AsyncClient) -> None:
    body = {
        **ASK, "seed": 7, "min_tokens": 1, "stop": ["x"], "stop_token_ids": [5], "logit_bias": {"3": 1}, "top_k": 4,
        "rid": "r", "priority": 2, "extra_key": "k", "cache_salt": "s",
    }  # fmt: skip
    await client.post(URL, json=body, headers={"X-Data-Parallel-Rank": "0"})
    obj = client.tm.submitted[0]
    assert obj.sampling_params == {
        "max_new_tokens": 3, "sampling_seed": 7, "min_new_tokens": 1, "stop": ["x"], "stop_token_ids": [5],
        "logit_bias": {"3": 1}, "top_k": 4,
    }  # fmt: skip
    assert (obj.rid, obj.priority, obj.extra_key, obj.cache_salt, obj.routed_dp_rank) == ("r", 2, "k", "s", 0)


async def test_batch_and_samples_come_prompt_major_and_count_each_prompt_once(client: httpx.AsyncClient) -> None:
    answer = (await client.post(URL, json={**ASK, "prompt": ["Hi", "Hello"], "n": 2, "rid": "r"})).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert answer["usage"]["prompt_tokens"] == 3 + 6
    assert answer["usage"]["completion_tokens"] == 12
    assert answer["id"] == "r_0"


@pytest.mark.parametrize(
    ("prompt", "ids", "echo"), [([72, 105], [72, 105], "Hi"), ([[72], [105]], [[72], [105]], "H"), ("Hi", None, "Hi")]
)
async def test_token_prompts_pass_through_and_echo_decodes_them(
    client: httpx.AsyncClient, prompt: Any, ids: Any, echo: str
) -> None:
    answer = (await client.post(URL, json={**ASK, "prompt": prompt, "echo": True})).json()
    assert client.tm.submitted[0].input_ids == ids
    assert answer["choices"][0]["text"] == echo + " Paris.\n"


async def test_logprobs_lists_are_parallel_with_the_alternatives_of_each_position(client: httpx.AsyncClient) -> None:
    client.tm.script = Script(["a", "b"], [97, 200])  # 200 alone is no whole character
    answer = (await client.post(URL, json={**ASK, "logprobs": 2})).json()
    assert answer["choices"][0]["logprobs"] == {
        "text_offset": [-1, -1],
        "token_logprobs": [-0.5, -1.5],
        "tokens": ["a", "\xc8"],
        "top_logprobs": [{"a": -0.5, "b": -1.5}, {"\xc8": -1.5, "\xc9": -2.5}],
    }


async def test_logprobs_zero_gives_the_chosen_token_only(client: httpx.AsyncClient) -> None:
    logprobs = (await client.post(URL, json={**ASK, "logprobs": 0})).json()["choices"][0]["logprobs"]
    assert logprobs["top_logprobs"] == []
    assert len(logprobs["tokens"]) == 3


@pytest.mark.parametrize("stream", [False, True])
async def test_echo_puts_the_prompts_logprobs_first(client: httpx.AsyncClient, stream: bool) -> None:
    body = {**ASK, "prompt": [72, 105], "echo": True, "logprobs": 1, "stream": stream}
    response = await client.post(URL, json=body)
    choice = (chunks(response.text)[0] if stream else response.json())["choices"][0]
    assert choice["logprobs"]["tokens"][:2] == ["H", "i"]
    assert choice["logprobs"]["token_logprobs"][:3] == [None, -1.0, -0.5]
    assert choice["logprobs"]["top_logprobs"][:2] == [None, {"i": -1.0}]
    assert client.tm.submitted[0].logprob_start_len == 0


async def test_stream_ends_with_text_and_reason_in_one_chunk(client: httpx.AsyncClient) -> None:
    response = await client.post(URL, json={**ASK, "stream": True, "rid": "r"})
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    items = chunks(response.text)
    assert [item["choices"][0]["text"] for item in items] == [" Paris", ".", "\n"]
    assert [item["choices"][0]["finish_reason"] for item in items] == [None, None, "length"]
    assert all(list(item) == ["id", "object", "created", "model", "choices", "usage"] for item in items)
    assert all(item["usage"] is None and item["id"] == "r" for item in items)
    assert list(items[0]["choices"][0]) == ["index", "text", "logprobs", "finish_reason", "matched_stop"]


@pytest.mark.parametrize("extra", [{}, {"echo": True}, {"logprobs": 2}, {"n": 3}, {"prompt": ["a", "b"]}])
async def test_stream_says_the_same_as_the_whole_answer(client: httpx.AsyncClient, extra: dict[str, Any]) -> None:
    whole = (await client.post(URL, json={**ASK, **extra})).json()["choices"]
    streamed = chunks((await client.post(URL, json={**ASK, **extra, "stream": True})).text)
    for choice in whole:
        parts = [c["choices"][0] for c in streamed if c["choices"][0]["index"] == choice["index"]]
        assert "".join(part["text"] for part in parts) == choice["text"]
        assert parts[-1]["finish_reason"] == choice["finish_reason"]
        if choice["logprobs"]:
            for key, value in choice["logprobs"].items():
                assert [item for part in parts for item in part["logprobs"][key]] == value


async def test_usage_comes_once_and_only_when_asked(client: httpx.AsyncClient) -> None:
    asked = chunks(
        (await client.post(URL, json={**ASK, "n": 2, "stream": True, "stream_options": {"include_usage": True}})).text
    )
    assert asked[-1]["choices"] == []
    assert asked[-1]["usage"] == {
        "prompt_tokens": 3, "total_tokens": 9, "completion_tokens": 6, "reasoning_tokens": 0,
    }  # fmt: skip
    assert all(item["usage"] is None for item in asked[:-1])


async def test_server_can_turn_the_usage_chunk_on(make_client: Any) -> None:
    async with make_client(stream_response_default_include_usage=True) as client:
        items = chunks((await client.post(URL, json={**ASK, "stream": True})).text)
        assert items[-1]["usage"]["completion_tokens"] == 3
        off = {**ASK, "stream": True, "stream_options": {"include_usage": False}}
        assert chunks((await client.post(URL, json=off)).text)[-1]["usage"] is None


async def test_running_usage_counts_up(client: httpx.AsyncClient) -> None:
    body = {**ASK, "stream": True, "stream_options": {"continuous_usage_stats": True}}
    items = chunks((await client.post(URL, json=body)).text)
    assert [item["usage"]["completion_tokens"] for item in items] == [1, 2, 3]


async def test_token_ids_on_request(client: httpx.AsyncClient) -> None:
    whole = (await client.post(URL, json={**ASK, "return_token_ids": True})).json()["choices"][0]
    assert (whole["token_ids"], whole["prompt_token_ids"]) == ([10, 11, 12], [256, 72, 105])
    items = chunks((await client.post(URL, json={**ASK, "return_token_ids": True, "stream": True})).text)
    assert [item["choices"][0]["token_ids"] for item in items] == [[10], [11], [12]]
    assert items[0]["choices"][0]["prompt_token_ids"] == [256, 72, 105]


async def test_matched_stop_is_reported(client: httpx.AsyncClient) -> None:
    client.tm.script = Script(["a"], [97], {"type": "stop", "matched": "."})
    choice = (await client.post(URL, json=ASK)).json()["choices"][0]
    assert (choice["finish_reason"], choice["matched_stop"]) == ("stop", ".")


async def test_cached_tokens_show_only_with_the_flag(make_client: Any) -> None:
    async with make_client(enable_cache_report=True) as client:
        usage = (await client.post(URL, json=ASK)).json()["usage"]
        assert usage["prompt_tokens_details"] == {"cached_tokens": 0}


@pytest.mark.parametrize("stream", [False, True])
async def test_refused_request_is_a_plain_400_in_both_modes(client: httpx.AsyncClient, stream: bool) -> None:
    response = await client.post(URL, json={**ASK, "temperature": -1, "stream": stream})
    assert response.status_code == 400
    body = response.json()
    assert (body["object"], body["type"], body["param"], body["code"]) == ("error", "BadRequestError", None, 400)
    assert "temperature" in body["message"]


@pytest.mark.parametrize("stream", [False, True])
async def test_queue_full_keeps_its_status(client: httpx.AsyncClient, stream: bool) -> None:
    client.tm.script = Script([""], [1], {"type": "abort", "message": "queue is full", "status_code": 503})
    response = await client.post(URL, json={**ASK, "stream": stream})
    assert response.status_code == 503
    assert response.json() == {
        "object": "error", "message": "queue is full", "type": "503", "param": None, "code": 503,
    }  # fmt: skip


async def test_abort_after_the_first_chunk_is_an_error_event(client: httpx.AsyncClient) -> None:
    client.tm.script = Script(["a", ""], [1, 2], {"type": "abort", "message": "out of memory", "status_code": 500})
    response = await client.post(URL, json={**ASK, "stream": True})
    assert response.status_code == 200
    items = chunks(response.text)
    assert items[0]["choices"][0]["text"] == "a"
    assert items[1]["error"]["message"] == "out of memory"
    assert items[1]["error"]["code"] == 500


async def test_abort_by_a_user_is_no_error(client: httpx.AsyncClient) -> None:
    client.tm.script = Script(["a"], [1], {"type": "abort", "message": "Aborted", "status_code": None})
    response = await client.post(URL, json=ASK)
    assert response.status_code == 200
    assert response.json()["choices"][0]["finish_reason"] == "abort"


@pytest.mark.parametrize(
    ("change", "kind", "field"),
    [
        ({"max_tokens": 0}, "Bad Request", "max_tokens"),
        ({"max_tokens": -5}, "Bad Request", "max_tokens"),
        ({"max_tokens": "5"}, "Bad Request", "max_tokens"),
        ({"prompt": None}, "Bad Request", "prompt"),
        ({"prompt": {}}, "Bad Request", "prompt"),
        ({"prompt": [1.5]}, "Bad Request", "prompt"),
        ({"prompt": [True]}, "Bad Request", "prompt"),
        ({"prompt": [2**70]}, "Bad Request", "prompt"),
        ({"stop": [1]}, "Bad Request", "stop"),
        ({"logprobs": -1}, "Bad Request", "logprobs"),
        ({"prompt": ""}, "BadRequestError", "prompt"),
        ({"prompt": []}, "BadRequestError", "prompt"),
        ({"n": 10**9}, "BadRequestError", "n must"),
        ({"n": 0}, "BadRequestError", "n must"),
        ({"regex": "a", "ebnf": "a"}, "BadRequestError", "regex"),
        ({"regex": "a", "json_schema": "{}"}, "BadRequestError", "json_schema"),
        ({"response_format": {"type": "json_schema"}}, "BadRequestError", "response_format"),
        ({"response_format": {"type": "yaml"}}, "BadRequestError", "response_format"),
        ({"watermark": {"x": 1}}, "BadRequestError", "watermark"),
    ],
)
async def test_bad_values_name_the_field(
    client: httpx.AsyncClient, change: dict[str, Any], kind: str, field: str
) -> None:
    response = await client.post(URL, json={**ASK, **change})
    assert response.status_code == 400
    assert response.json()["type"] == kind
    assert field in response.json()["message"]


@pytest.mark.parametrize(
    ("field", "kind", "text"),
    [
        ({"regex": "a+"}, "regex", "a+"),
        ({"ebnf": 'root ::= "a"'}, "ebnf", 'root ::= "a"'),
        ({"json_schema": '{"type": "null"}'}, "json_schema", '{"type": "null"}'),
        ({"response_format": {"type": "json_object"}}, "json_schema", '{"type": "object"}'),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "null"}}}},
            "json_schema",
            '{"type": "null"}',
        ),
    ],
)
async def test_each_form_of_grammar_travels_as_one_parameter(
    client: httpx.AsyncClient, field: dict[str, Any], kind: str, text: str
) -> None:
    await client.post(URL, json={**ASK, **field})
    assert client.tm.submitted[0].sampling_params == {"max_new_tokens": 3, kind: text}


@pytest.mark.parametrize(
    ("model", "path", "adapter"),
    [("fake:a", None, "a"), ("other:a:b", "c", "a:b"), ("fake", "c", "c"), ("fake", None, None), ("fake:", None, None)],
)
async def test_adapter_of_the_model_name_beats_lora_path(
    client: httpx.AsyncClient, model: str, path: str | None, adapter: str | None
) -> None:
    answer = (await client.post(URL, json={**ASK, "model": model, "lora_path": path})).json()
    assert client.tm.submitted[0].lora_path == adapter
    assert answer["model"] == model


async def test_best_of_and_user_have_no_effect(client: httpx.AsyncClient) -> None:
    answer = (await client.post(URL, json={**ASK, "best_of": 3, "user": "u"})).json()
    assert len(answer["choices"]) == 1
    assert client.tm.submitted[0].sampling_params == {"max_new_tokens": 3}


@pytest.mark.parametrize("suffix", [None, "", "end"])
async def test_suffix_without_a_template_changes_nothing(client: httpx.AsyncClient, suffix: str | None) -> None:
    await client.post(URL, json={**ASK, "suffix": suffix})
    assert client.tm.submitted[0].text == "Hi"


FILLED = "<|fim_prefix|>Hi<|fim_suffix|>end<|fim_middle|>"


@pytest.mark.parametrize(("prompt", "filled"), [("Hi", FILLED), (["Hi", "Hi"], [FILLED, FILLED])])
async def test_suffix_goes_behind_the_gap(make_client: Any, prompt: Any, filled: Any) -> None:
    async with make_client(completion_template="qwen_coder") as client:
        answer = (await client.post(URL, json={**ASK, "prompt": prompt, "suffix": "end", "echo": True})).json()
        assert client.tm.submitted[0].text == filled
        assert answer["choices"][0]["text"] == "Hi Paris.\n"


async def test_suffix_around_token_prompts_gives_the_ids_of_the_same_text(make_client: Any) -> None:
    async with make_client(completion_template="qwen_coder") as client:
        for prompt in ([72, 105], [[72, 105]]):
            await client.post(URL, json={**ASK, "prompt": prompt, "suffix": "end"})
        ids = client.tm.tokenizer.encode(FILLED)
        assert [obj.input_ids for obj in client.tm.submitted] == [ids, [ids]]


@pytest.mark.parametrize("prompt", [["a", ""], [[1], []]])
async def test_an_empty_prompt_stays_refused_with_a_suffix(make_client: Any, prompt: Any) -> None:
    async with make_client(completion_template="qwen_coder") as client:
        response = await client.post(URL, json={**ASK, "prompt": prompt, "suffix": "end"})
        assert response.status_code == 400
        assert "prompt" in response.json()["message"]


async def test_no_suffix_leaves_the_prompt_alone_under_a_template(make_client: Any) -> None:
    async with make_client(completion_template="star_coder") as client:
        await client.post(URL, json=ASK)
        assert client.tm.submitted[0].text == "Hi"


async def test_bad_rank_header_is_named(client: httpx.AsyncClient) -> None:
    response = await client.post(URL, json=ASK, headers={"X-Data-Parallel-Rank": "one"})
    assert response.status_code == 400
    assert "X-Data-Parallel-Rank" in response.json()["message"]
