"""Ollama's own SDK, unmodified, against real models."""

from __future__ import annotations

import json
from typing import Any

import httpx
import ollama
import pytest

from api.conftest import API_KEY
from e2e.conftest import Server

pytestmark = pytest.mark.e2e

FRANCE: Any = [{"role": "user", "content": "What is the capital of France?"}]
GREEDY: dict[str, Any] = {"temperature": 0, "num_predict": 16}


@pytest.fixture(scope="module")
def smol(smol_api: Server) -> ollama.Client:
    return ollama.Client(host=smol_api.url, headers={"Authorization": f"Bearer {API_KEY}"})


@pytest.fixture(scope="module")
def qwen(qwen_api: Server) -> ollama.Client:
    return ollama.Client(host=qwen_api.url)


def test_chat(smol: ollama.Client) -> None:
    answer = smol.chat(model="smollm2", messages=FRANCE, options=GREEDY)
    assert answer.message.content
    assert answer.done and answer.prompt_eval_count == 37
    assert answer.done_reason == ("length" if answer.eval_count == 16 else "stop")
    assert answer.total_duration and answer.prompt_eval_duration and answer.eval_duration
    assert answer.total_duration >= answer.prompt_eval_duration + answer.eval_duration


def test_stream_equals_the_whole_answer(smol: ollama.Client) -> None:
    for budget in (16, 1):
        options = {**GREEDY, "num_predict": budget}
        whole = smol.chat(model="smollm2", messages=FRANCE, options=options)
        parts = list(smol.chat(model="smollm2", messages=FRANCE, options=options, stream=True))
        assert "".join(part.message.content or "" for part in parts) == whole.message.content
        assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
        assert (parts[-1].done_reason, parts[-1].prompt_eval_count) == (whole.done_reason, 37)
        assert parts[-1].eval_count == whole.eval_count


async def test_async_chat(smol_api: Server, smol: ollama.Client) -> None:
    whole = smol.chat(model="smollm2", messages=FRANCE, options=GREEDY)
    client = ollama.AsyncClient(host=smol_api.url, headers={"Authorization": f"Bearer {API_KEY}"})
    stream = await client.chat(model="smollm2", messages=FRANCE, options=GREEDY, stream=True)
    assert "".join([part.message.content or "" async for part in stream]) == whole.message.content


def test_generate(smol: ollama.Client) -> None:
    raw = smol.generate(
        model="smollm2", prompt="The capital of France is", raw=True, options={**GREEDY, "num_predict": 4}
    )
    assert (raw.response, raw.prompt_eval_count, raw.context) == (" Paris.\n\n", 5, None)
    chat = smol.generate(model="smollm2", prompt=FRANCE[0]["content"], options=GREEDY)
    same = smol.chat(model="smollm2", messages=FRANCE, options=GREEDY)
    assert (chat.response, chat.prompt_eval_count) == (same.message.content, 37)
    parts = list(smol.generate(model="smollm2", prompt=FRANCE[0]["content"], options=GREEDY, stream=True))
    assert "".join(part.response or "" for part in parts) == chat.response
    assert parts[-1].context == chat.context


def test_templates_in_both_languages_give_the_same_prompt(smol: ollama.Client) -> None:
    template = (
        "{{ if .System }}<|im_start|>system\n{{ .System }}<|im_end|>\n{{ end }}"
        "<|im_start|>user\n{{ .Prompt }}<|im_end|>\n<|im_start|>assistant\n{{ .Response }}<|im_end|>\n"
    )
    ask = {"model": "smollm2", "prompt": "Hi", "system": "Be terse.", "options": {**GREEDY, "num_predict": 4}}
    own, given = smol.generate(**ask), smol.generate(**ask, template=template)
    assert given.context == own.context


def test_context_carries_the_conversation(smol: ollama.Client) -> None:
    first = smol.generate(model="smollm2", prompt="Say one word.", options={**GREEDY, "num_predict": 4})
    second = smol.generate(
        model="smollm2", prompt="Again.", context=first.context, options={**GREEDY, "num_predict": 1}
    )
    history = [
        {"role": "user", "content": "Say one word."},
        {"role": "assistant", "content": first.response},
        {"role": "user", "content": "Again."},
    ]
    same = smol.chat(model="smollm2", messages=history, options={**GREEDY, "num_predict": 1})
    assert same.prompt_eval_count == second.prompt_eval_count


def test_suffix_fills_the_gap(qwen: ollama.Client) -> None:
    ask = {"prompt": "def add(a, b):\n    return ", "suffix": "\n\nprint(add(1, 2))\n"}
    answer = qwen.generate(model="qwen", **ask, options={**GREEDY, "num_predict": 4})
    assert answer.response is not None and answer.response.strip().startswith("a + b")


def test_seeds_are_honoured(smol: ollama.Client) -> None:
    options = {"temperature": 1.5, "seed": 7, "num_predict": 12}
    texts = {smol.chat(model="smollm2", messages=FRANCE, options=options).message.content for _ in range(2)}
    assert len(texts) == 1
    other = smol.chat(model="smollm2", messages=FRANCE, options={**options, "seed": 8}).message.content
    assert other not in texts


def test_format_schema(qwen: ollama.Client) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"enum": ["Ulm", "Bonn"]}, "old": {"type": "boolean"}},
        "required": ["name", "old"],
    }
    ask: Any = [{"role": "user", "content": "Tell me about the town of Ulm."}]
    answer = qwen.chat(model="qwen", messages=ask, format=schema, options={"temperature": 0, "num_predict": 64})
    town = json.loads(answer.message.content or "")
    assert town["name"] in ("Ulm", "Bonn") and isinstance(town["old"], bool)
    answer = qwen.chat(model="qwen", messages=ask, format="json", options={"temperature": 0, "num_predict": 96})
    assert answer.done_reason == "length" or isinstance(json.loads(answer.message.content or ""), dict)


def get_weather(city: str) -> str:
    """Get the current weather in a city.

    Args:
        city: the name of the city
    """
    return f"21 C in {city}"


def test_a_tools_result_is_read(qwen: ollama.Client) -> None:
    """The way back of a tool call. (This model writes calls without their markers unless it is forced to.)"""
    calls: Any = [{"function": {"name": "get_weather", "arguments": {"city": "Rome"}}}]
    asked: Any = [{"role": "user", "content": "What is the weather in Rome?"}]
    result = {"role": "tool", "tool_name": "get_weather", "content": get_weather("Rome")}
    history = [*asked, {"role": "assistant", "content": "", "tool_calls": calls}, result]
    ask: dict[str, Any] = {"model": "qwen", "tools": [get_weather], "options": {**GREEDY, "num_predict": 1}}
    first, second = qwen.chat(**ask, messages=asked), qwen.chat(**ask, messages=history)
    assert (second.prompt_eval_count or 0) > (first.prompt_eval_count or 0) + 20


def test_what_is_served(qwen: ollama.Client, smol: ollama.Client) -> None:
    (model,) = qwen.list().models
    assert model.model == "qwen" and model.size and model.size > 100_000_000
    assert model.modified_at is not None and len(model.digest or "") == 64
    shown = qwen.show("qwen")
    assert shown.capabilities == ["completion", "tools"]
    assert shown.modelinfo is not None and shown.modelinfo["qwen.context_length"] == 32768
    (loaded,) = qwen.ps().models
    assert (loaded.name, loaded.context_length) == ("qwen", 32768)
    assert smol.show("smollm2").capabilities == ["completion"]


def test_errors_carry_their_text(smol: ollama.Client) -> None:
    for ask, status, text in (
        ({"model": "other"}, 404, "not found"),
        ({"options": {"temperature": -1}}, 400, "temperature"),
        ({"messages": [{"role": "user", "content": "x", "images": [b"\x89PNG"]}]}, 400, "text only"),
        ({"tools": [get_weather]}, 400, "does not support tools"),
        ({"think": True}, 400, "does not support thinking"),
        ({"messages": [{"role": "user", "content": "hello " * 9000}]}, 400, "8192"),
    ):
        body: Any = {"model": "smollm2", "messages": FRANCE, **ask}
        for stream in (False, True):
            with pytest.raises(ollama.ResponseError, match=text) as refused:
                list(smol.chat(**body, stream=stream))
            assert refused.value.status_code == status
    with pytest.raises(ollama.ResponseError, match="embeddings"):
        smol.embed(model="smollm2", input="x")


def test_an_empty_request_loads_nothing(smol: ollama.Client) -> None:
    assert smol.generate(model="smollm2", prompt="").done_reason == "load"
    assert smol.chat(model="smollm2", messages=[]).done_reason == "load"
    assert smol.generate(model="smollm2", prompt="", keep_alive=0).done_reason == "unload"


def test_the_root_greets_ollamas_clients(qwen_api: Server) -> None:
    answer = httpx.get(qwen_api.url, headers={"user-agent": "ollama/0.12.0 (amd64 linux) Go/go1.24"})
    assert answer.text == "Ollama is running"
