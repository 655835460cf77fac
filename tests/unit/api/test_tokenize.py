"""POST /v1/tokenize and /v1/detokenize."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

HI = [72, 105]


@pytest.mark.parametrize("path", ["/v1/tokenize", "/tokenize"])
@pytest.mark.parametrize(
    ("body", "tokens", "count"),
    [
        ({"prompt": "Hi"}, [256, *HI], 3),
        ({"prompt": "Hi", "add_special_tokens": False}, HI, 2),
        ({"prompt": "", "add_special_tokens": False}, [], 0),
        ({"prompt": ["Hi", ""]}, [[256, *HI], [256]], [3, 1]),
        ({"prompt": []}, [], []),
    ],
)
async def test_text(client: httpx.AsyncClient, path: str, body: Any, tokens: Any, count: Any) -> None:
    answer = (await client.post(path, json={"model": "any", **body})).json()
    assert answer == {"tokens": tokens, "count": count, "max_model_len": 2048}


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ({}, "<s>user:Hi;<s>assistant:"),
        ({"add_generation_prompt": True}, "<s>user:Hi;<s>assistant:"),
        ({"add_generation_prompt": False}, "<s>user:Hi;"),
        ({"chat_template_kwargs": {"k": 1}}, "<s>user:Hi;[k=1]<s>assistant:"),
        ({"reasoning_effort": "none"}, "<s>user:Hi;[enable_thinking=False][reasoning_effort=none][thinking=False]"),
    ],
)
async def test_messages_are_rendered_as_a_chat_would_be(client: httpx.AsyncClient, extra: Any, text: str) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], **extra}
    answer = (await client.post("/v1/tokenize", json=body)).json()
    rendered = client.tm.tokenizer.decode(answer["tokens"], skip_special_tokens=False)
    assert rendered.startswith(text)
    assert answer["count"] == len(answer["tokens"])


@pytest.mark.parametrize(
    ("tokens", "skip", "text"),
    [
        (HI, True, "Hi"),
        ([256, *HI], True, "Hi"),
        ([256, *HI], False, "<s>Hi"),
        ([HI, [], [33]], True, ["Hi", "", "!"]),
        ([], True, ""),
    ],
)
async def test_detokenize(client: httpx.AsyncClient, tokens: Any, skip: bool, text: Any) -> None:
    body = {"tokens": tokens, "skip_special_tokens": skip}
    for path in ("/v1/detokenize", "/detokenize"):
        assert (await client.post(path, json=body)).json() == {"text": text}


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/v1/tokenize", {}, "exactly one of prompt and messages"),
        ("/v1/tokenize", {"prompt": "a", "messages": [{"role": "user", "content": "a"}]}, "exactly one"),
        ("/v1/tokenize", {"messages": []}, "messages"),
        ("/v1/tokenize", {"prompt": 5}, "prompt"),
        ("/v1/tokenize", {"messages": [{"role": "tool", "content": "a"}]}, "Tool role not supported"),
        ("/v1/detokenize", {}, "tokens"),
        ("/v1/detokenize", {"tokens": ["a"]}, "tokens"),
        ("/v1/detokenize", {"tokens": [300]}, "from 0 to 299"),
        ("/v1/detokenize", {"tokens": [[1], [-1]]}, "outside the vocabulary"),
        ("/v1/detokenize", {"tokens": [1, [2]]}, "tokens"),
        ("/v1/detokenize", {"tokens": [2**70]}, "tokens"),
    ],
)
async def test_bad_bodies_are_refused_with_words(client: httpx.AsyncClient, path: str, body: Any, words: str) -> None:
    response = await client.post(path, json=body)
    assert response.status_code == 400
    assert words in response.json()["message"]


@pytest.mark.parametrize("path", ["/v1/tokenize", "/v1/detokenize"])
async def test_without_a_tokenizer_both_say_so(client: httpx.AsyncClient, path: str) -> None:
    client.tm.tokenizer = None
    response = await client.post(path, json={"prompt": "a", "tokens": [1]})
    assert response.status_code == 400
    assert "without a tokenizer" in response.json()["message"]
