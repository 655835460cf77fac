"""The Ollama routes: prompts, shapes, lines, errors."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from unit.api.fake_manager import FakeTokenizerManager, Script

HI = {"role": "user", "content": "Hi"}
CHAT: dict[str, Any] = {"model": "fake", "messages": [HI], "options": {"num_predict": 3}}
ASK: dict[str, Any] = {"model": "fake", "prompt": "Hi", "options": {"num_predict": 3}}
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
CALL = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
COUNTS = {"total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count", "eval_duration"}


def prompt_of(tm: FakeTokenizerManager) -> str:
    ids = tm.submitted[-1].input_ids
    assert tm.tokenizer is not None
    return tm.tokenizer.decode(ids, skip_special_tokens=False)  # type: ignore[arg-type]


def script(client: Any, text: str, finish: dict[str, Any] | None = None, step: int = 3) -> None:
    pieces = [text[at : at + step] for at in range(0, len(text), step)] or [""]
    client.tm.script = Script(pieces, [65] * len(pieces), finish or {"type": "stop", "matched": 257})


def lines(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.headers["content-type"] == "application/x-ndjson"
    assert response.text.endswith("\n")
    return [json.loads(line) for line in response.text.splitlines()]


async def whole(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    response = await client.post(path, json={**body, "stream": False})
    assert response.status_code == 200, response.text
    return response.json()  # type: ignore[no-any-return]


async def test_whole_chat(client: httpx.AsyncClient) -> None:
    answer = await whole(client, "/api/chat", CHAT)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", answer.pop("created_at"))
    counts = {name: answer.pop(name) for name in COUNTS}
    assert answer == {
        "model": "fake", "message": {"role": "assistant", "content": " Paris.\n", "images": None},
        "done": True, "done_reason": "length",
    }  # fmt: skip
    assert (counts["prompt_eval_count"], counts["eval_count"]) == (20, 3)
    assert all(isinstance(value, int) and value >= 0 for value in counts.values())
    assert counts["total_duration"] >= counts["prompt_eval_duration"] + counts["eval_duration"] > 0


async def test_whole_generate(client: httpx.AsyncClient) -> None:
    answer = await whole(client, "/api/generate", ASK)
    assert set(answer) == {"model", "created_at", "response", "done", "done_reason", "context", *COUNTS}
    assert (answer["response"], answer["done"], answer["done_reason"]) == (" Paris.\n", True, "length")
    assert answer["context"] == [*client.tm.submitted[0].input_ids, 10, 11, 12]
    assert prompt_of(client.tm) == "<s>user:Hi;<s>assistant:"


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
async def test_a_stream_loses_nothing_and_ends_with_the_counts(client: httpx.AsyncClient, path: str) -> None:
    response = await client.post(path, json=CHAT if path == "/api/chat" else ASK)
    *parts, end = lines(response)
    texts = [part["message"]["content"] if "message" in part else part["response"] for part in parts]
    assert texts == [" Paris", ".", "\n"]
    assert all((part["done"], part["done_reason"]) == (False, None) for part in parts)
    assert (end["done"], end["done_reason"], end["eval_count"], end["prompt_eval_count"]) == (True, "length", 3, 20)
    assert end["message"]["content"] == "" if path == "/api/chat" else end["response"] == "" and end["context"]
    assert end.keys() >= COUNTS


async def test_all_text_in_one_chunk_is_not_lost(client: httpx.AsyncClient) -> None:
    script(client, "all", step=9)
    first, end = lines(await client.post("/api/chat", json=CHAT))
    assert (first["message"]["content"], end["done_reason"]) == ("all", "stop")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"max_new_tokens": 2048}),
        ({"num_predict": -1}, {"max_new_tokens": None}),
        ({"num_predict": 5.0, "num_ctx": 4096, "mirostat": 0}, {"max_new_tokens": 5}),
        ({"seed": 7, "top_k": 0, "repeat_penalty": 1.1},
         {"max_new_tokens": 2048, "sampling_seed": 7, "top_k": -1, "repetition_penalty": 1.1}),
        ({"seed": -1, "top_k": 9, "top_p": 0.5, "min_p": 0.1, "stop": ["a"]},
         {"max_new_tokens": 2048, "top_k": 9, "top_p": 0.5, "min_p": 0.1, "stop": ["a"]}),
        ({"presence_penalty": 1, "frequency_penalty": 0.5, "temperature": 0, "stop": []},
         {"max_new_tokens": 2048, "presence_penalty": 1, "frequency_penalty": 0.5, "temperature": 0}),
    ],
)  # fmt: skip
async def test_options(make_client: Any, options: dict[str, Any], expected: dict[str, Any]) -> None:
    async with make_client(sampling_defaults="openai") as client:
        await client.post("/api/chat", json={**CHAT, "options": options})
        assert client.tm.submitted[0].sampling_params == expected


@pytest.mark.parametrize(
    ("format_", "schema"),
    [("json", {"type": "object"}), ({"type": "array"}, {"type": "array"}), ({}, {}), ("", None), (None, None)],
)
async def test_format(client: httpx.AsyncClient, format_: Any, schema: Any) -> None:
    for path, body in (("/api/chat", CHAT), ("/api/generate", ASK)):
        await client.post(path, json={**body, "format": format_})
        given = client.tm.submitted[-1].sampling_params.get("json_schema")
        assert (None if given is None else json.loads(given)) == schema


@pytest.mark.parametrize(
    ("extra", "prompt"),
    [
        ({"system": "S"}, "<s>system:S;<s>user:Hi;<s>assistant:"),
        ({"raw": True}, "<s>Hi"),
        ({"template": "[{{ .System }}|{{ .Prompt }}]", "system": "S"}, "<s>[S|Hi]"),
        ({"template": "{{ .Prompt }}|{{ .Suffix }}", "suffix": "end"}, "<s>Hi|end"),
        ({"system": "", "template": "", "suffix": "", "context": []}, "<s>user:Hi;<s>assistant:"),
    ],
)
async def test_prompts_of_generate(client: httpx.AsyncClient, extra: dict[str, Any], prompt: str) -> None:
    answer = await whole(client, "/api/generate", {**ASK, **extra})
    assert prompt_of(client.tm) == prompt
    assert (answer["context"] is None) == ("raw" in extra)


async def test_a_suffix_is_put_behind_the_gap(make_client: Any) -> None:
    async with make_client(completion_template="star_coder") as client:
        await whole(client, "/api/generate", {**ASK, "suffix": "end", "raw": True})
        assert prompt_of(client.tm) == "<s><fim_prefix>Hi<fim_suffix>end<fim_middle>"


async def test_context_continues_the_conversation(client: httpx.AsyncClient) -> None:
    answer = await whole(client, "/api/generate", ASK)
    await whole(client, "/api/generate", {**ASK, "prompt": "More", "context": answer["context"]})
    assert prompt_of(client.tm) == "<s>user:Hi;<s>assistant:\n\x0b\x0c;<s>user:More;<s>assistant:"
    # An answer that came to its end brings the token that ends the turn along.
    await whole(client, "/api/generate", {**ASK, "prompt": "More", "context": [65, ord(";")]})
    assert prompt_of(client.tm) == "A;<s>user:More;<s>assistant:"
    await whole(client, "/api/generate", {**ASK, "template": "<{{ .Prompt }}>", "context": [65]})
    assert prompt_of(client.tm) == "A<Hi>"


@pytest.mark.parametrize(("keep_alive", "reason"), [(None, "load"), ("5m", "load"), (0, "unload"), ("0s", "unload")])
@pytest.mark.parametrize(("path", "empty"), [("/api/chat", {"messages": []}), ("/api/generate", {"prompt": " "})])
async def test_without_a_prompt_nothing_runs(
    client: httpx.AsyncClient, path: str, empty: dict[str, Any], keep_alive: Any, reason: str
) -> None:
    body = {"model": "fake", **empty, "keep_alive": keep_alive}
    answer = await whole(client, path, body)
    assert (answer["done"], answer["done_reason"]) == (True, reason)
    assert [line["done_reason"] for line in lines(await client.post(path, json=body))] == [reason]
    assert client.tm.submitted == []


async def test_tools(make_client: Any) -> None:
    async with make_client(tool_call_parser="qwen25") as client:
        script(client, "I call." + CALL + CALL)
        body = {**CHAT, "tools": [TOOL], "options": {"num_predict": 99}}
        message = (answer := await whole(client, "/api/chat", body))["message"]
        assert (message["content"], answer["done_reason"]) == ("I call.", "stop")
        functions = [{"index": index, "name": "f", "arguments": {"x": 1}} for index in (0, 1)]
        assert [call["function"] for call in message["tool_calls"]] == functions
        *parts, end = lines(await client.post("/api/chat", json=body))
        calls = [call for part in parts for call in part["message"].get("tool_calls", ())]
        assert [call["function"] for call in calls] == functions
        assert "".join(part["message"]["content"] for part in parts) == "I call."
        assert end["done_reason"] == "stop"


async def test_history_of_a_tool_turn(make_client: Any) -> None:
    async with make_client(tool_call_parser="qwen25") as client:
        seen: list[dict[str, Any]] = []

        def render(messages: list[dict[str, Any]], **kwargs: Any) -> str:
            seen.extend(messages)
            return "x"

        client.tm.chat_template.render = render
        call = {"function": {"name": "f", "arguments": {"x": 1}}}
        history = [HI, {"role": "assistant", "thinking": "hm", "tool_calls": [call]},
                   {"role": "tool", "tool_name": "f", "content": "21"}]  # fmt: skip
        await client.post("/api/chat", json={**CHAT, "messages": history})
        assert seen[1:] == [
            {"role": "assistant", "content": "", "reasoning_content": "hm",
             "tool_calls": [{"type": "function", "function": call["function"]}]},
            {"role": "tool", "name": "f", "content": "21"},
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("think", "variables"),
    [
        (True, "[enable_thinking=True]"),
        (False, "[enable_thinking=False]"),
        ("low", "[enable_thinking=True][reasoning_effort=low][thinking=True]"),
        (None, ""),
    ],
)
async def test_thinking(make_client: Any, think: Any, variables: str) -> None:
    async with make_client(reasoning_parser="qwen3") as client:
        script(client, "<think>hm</think>So")
        body = {**CHAT, "think": think, "options": {"num_predict": 99}}
        answer = await whole(client, "/api/chat", body)
        assert prompt_of(client.tm) == f"<s>user:Hi;{variables}<s>assistant:"
        if think is not False:
            assert (answer["message"]["thinking"], answer["message"]["content"]) == ("hm", "So")
            parts = lines(await client.post("/api/chat", json=body))
            assert "".join(part["message"].get("thinking", "") for part in parts) == "hm"
            generated = await whole(client, "/api/generate", {**ASK, "think": think, "options": {"num_predict": 99}})
            assert (generated["thinking"], generated["response"]) == ("hm", "So")


async def test_logprobs(client: httpx.AsyncClient) -> None:
    body = {**CHAT, "logprobs": True, "top_logprobs": 2}
    answer = await whole(client, "/api/chat", body)
    assert [entry["logprob"] for entry in answer["logprobs"]] == [-0.5, -1.5, -2.5]
    assert [len(entry["top_logprobs"]) for entry in answer["logprobs"]] == [2, 2, 2]
    *parts, end = lines(await client.post("/api/chat", json=body))
    assert [entry for part in parts for entry in part["logprobs"]] == answer["logprobs"]
    assert "logprobs" not in end
    plain = await whole(client, "/api/generate", {**ASK, "logprobs": True})
    assert set(plain["logprobs"][0]) == {"token", "logprob", "bytes"}


@pytest.mark.parametrize(
    ("path", "extra", "status", "message"),
    [
        ("/api/chat", {"model": "other"}, 404, "'other' not found"),
        ("/api/generate", {"model": "other"}, 404, "'other' not found"),
        ("/api/chat", {"model": None}, 400, "model"),
        ("/api/chat", {"options": {"temperature": -1}}, 400, "temperature"),
        ("/api/chat", {"options": {"num_predict": 1.5}}, 400, "num_predict"),
        ("/api/chat", {"options": {"seed": "x"}}, 400, "seed"),
        ("/api/chat", {"messages": [{"role": "wizard", "content": "x"}]}, 400, "messages.0.role"),
        ("/api/chat", {"messages": [{**HI, "images": ["AAAA"]}]}, 400, "text only"),
        ("/api/generate", {"images": ["AAAA"]}, 400, "text only"),
        ("/api/generate", {"images": ["AAAA"], "raw": True}, 400, "text only"),
        ("/api/chat", {"tools": [TOOL]}, 400, "does not support tools"),
        ("/api/chat", {"think": True}, 400, "does not support thinking"),
        ("/api/chat", {"think": "lots"}, 400, "think"),
        ("/api/chat", {"format": "yaml"}, 400, "format"),
        ("/api/generate", {"raw": True, "system": "S"}, 400, "raw"),
        ("/api/generate", {"suffix": "end"}, 400, "does not support insert"),
        ("/api/generate", {"suffix": "end", "template": "{{ .Prompt }}"}, 400, "Suffix"),
        ("/api/generate", {"template": "{{ range .Messages }}"}, 400, "template"),
        ("/api/generate", {"prompt": None}, 400, "prompt"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_refusals(
    client: httpx.AsyncClient, path: str, extra: dict[str, Any], status: int, message: str, stream: bool
) -> None:
    body = {**(CHAT if path == "/api/chat" else ASK), **extra, "stream": stream}
    response = await client.post(path, json=body)
    assert response.status_code == status, response.text
    assert list(response.json()) == ["error"]
    assert message in response.json()["error"]


async def test_failures(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    script(client, "ab", {"type": "abort", "message": "queue full", "status_code": 503}, step=1)
    response = await client.post("/api/chat", json={**CHAT, "stream": False})
    assert (response.status_code, response.json()) == (503, {"error": "queue full"})
    *_, last = lines(await client.post("/api/chat", json=CHAT))
    assert last == {"error": "queue full"}
    script(client, "ab", {"type": "abort", "message": "Aborted"}, step=1)
    assert (await whole(client, "/api/chat", CHAT))["done_reason"] == "abort"
    monkeypatch.setattr("sglang.api.ollama.routes.to_chat", lambda request, body: 1 / 0)
    response = await client.post("/api/chat", json=CHAT)
    assert (response.status_code, response.json()) == (500, {"error": "Internal server error"})


async def test_bodies_that_are_not_json(client: httpx.AsyncClient) -> None:
    for path in ("/api/chat", "/api/generate", "/api/show", "/api/embed"):
        for raw in (b"", b"{bad", b"[]", b"null"):
            response = await client.post(path, content=raw)
            assert response.status_code == 400
            assert len(response.json()["error"]) > 10
    response = await client.post("/api/pull", json={"model": "x"})
    assert (response.status_code, list(response.json())) == (404, ["error"])


@pytest.mark.parametrize("name", ["fake", "fake:latest", "org/model", "default"])
async def test_names_of_the_model(client: httpx.AsyncClient, name: str) -> None:
    assert (await whole(client, "/api/chat", {**CHAT, "model": name}))["model"] == "fake"


async def test_what_is_served(client: httpx.AsyncClient) -> None:
    (card,) = (await client.get("/api/tags")).json()["models"]
    assert (card["name"], card["model"]) == ("fake", "fake")
    assert re.fullmatch("[0-9a-f]{64}", card["digest"])
    assert card["details"]["family"] == "fake"
    (loaded,) = (await client.get("/api/ps")).json()["models"]
    assert (loaded["name"], loaded["digest"], loaded["context_length"]) == ("fake", card["digest"], 2048)
    shown = (await client.post("/api/show", json={"model": "fake"})).json()
    assert shown["model_info"]["fake.context_length"] == 2048
    assert shown["parameters"] == "num_ctx 2048"
    assert shown["capabilities"] == ["completion"]
    assert (await client.post("/api/show", json={"name": "fake"})).status_code == 200
    assert (await client.post("/api/show", json={"model": "x"})).status_code == 404
    assert (await client.post("/api/show", json={})).status_code == 400
    assert list((await client.get("/api/version")).json()) == ["version"]


async def test_capabilities_follow_the_parsers(make_client: Any) -> None:
    async with make_client(tool_call_parser="qwen25", reasoning_parser="qwen3") as client:
        shown = (await client.post("/api/show", json={"model": "fake"})).json()
        assert shown["capabilities"] == ["completion", "tools", "thinking"]


@pytest.mark.parametrize("path", ["/api/embed", "/api/embeddings"])
async def test_embeddings_are_refused(client: httpx.AsyncClient, path: str) -> None:
    response = await client.post(path, json={"model": "fake", "input": "x"})
    assert response.status_code == 400
    assert "embeddings" in response.json()["error"]


@pytest.mark.parametrize("agent", ["ollama/0.6.3 (amd64 linux) Go/go1.24", "ollama-python/0.6.3 (x86_64 linux)"])
async def test_root_greets_ollamas_clients_in_their_words(client: httpx.AsyncClient, agent: str) -> None:
    response = await client.get("/", headers={"user-agent": agent})
    assert (response.text, response.headers["content-type"]) == ("Ollama is running", "text/plain; charset=utf-8")
    assert (await client.head("/", headers={"user-agent": agent})).status_code == 200
    assert (await client.get("/")).json() == "SGLang is running"


async def test_paths_can_be_renamed(make_client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, path in (("CHAT", "/o/chat"), ("GENERATE", "/o/gen"), ("TAGS", "/o/tags"), ("SHOW", "/o/show")):
        monkeypatch.setenv(f"SGLANG_OLLAMA_{name}_ROUTE", path)
    monkeypatch.setenv("SGLANG_OLLAMA_ROOT_ROUTE", "/o")
    async with make_client(api_key="sk") as client:
        assert (await client.get("/o/tags")).status_code == 401
        key = {"authorization": "Bearer sk"}
        assert (await client.get("/o", headers=key)).text == "Ollama is running"
        assert (await client.get("/o/tags", headers=key)).status_code == 200
        assert (await client.get("/api/tags", headers=key)).status_code == 404
        assert (await client.post("/o/chat", json=CHAT, headers=key)).status_code == 200
        assert (await client.post("/o/gen", json={}, headers=key)).json().keys() == {"error"}
        assert (await client.post("/o/show", json={"model": "fake"}, headers=key)).status_code == 200


async def test_the_root_can_be_ollamas_for_all(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_OLLAMA_ROOT_ROUTE", "/")
    assert (await client.get("/")).text == "Ollama is running"
