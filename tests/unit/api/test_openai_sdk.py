"""The official SDK, unmodified, over a real socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
import uvicorn

from sglang.api.app import create_app
from sglang.config.server_args import ServerArgs
from unit.api.fake_manager import FakeTokenizerManager

USER: Any = [{"role": "user", "content": "Hi"}]


@pytest.fixture
async def sdk() -> AsyncIterator[openai.AsyncOpenAI]:
    args = ServerArgs(model_path="org/model", served_model_name="fake", api_key="sk-test")
    app = create_app(FakeTokenizerManager(args), args)  # type: ignore[arg-type]
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", ws="none"))
    task = asyncio.ensure_future(server._serve([listener]))
    while not server.started:
        await asyncio.sleep(0.001)
    port = listener.getsockname()[1]
    async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="sk-test", max_retries=0) as client:
        yield client
    server.should_exit = True
    await task


async def test_models(sdk: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in sdk.models.list()] == ["fake"]
    assert (await sdk.models.retrieve("fake")).owned_by == "sglang"
    with pytest.raises(openai.NotFoundError):
        await sdk.models.retrieve("other")


async def test_chat(sdk: openai.AsyncOpenAI) -> None:
    answer = await sdk.chat.completions.create(
        model="fake", messages=USER, max_tokens=3, temperature=0, top_p=1, n=1, logprobs=True, top_logprobs=1
    )
    assert answer.choices[0].message.content == " Paris.\n"
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert [entry.top_logprobs[0].token == entry.token for entry in logprobs.content] == [True] * 3


async def test_chat_stream(sdk: openai.AsyncOpenAI) -> None:
    stream = await sdk.chat.completions.create(
        model="fake", messages=USER, max_tokens=3, n=2, stream=True, stream_options={"include_usage": True}
    )
    texts, usages, reasons = {0: "", 1: ""}, [], []
    async for chunk in stream:
        assert chunk.object == "chat.completion.chunk"
        usages += [chunk.usage] if chunk.usage else []
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            reasons += [choice.finish_reason] if choice.finish_reason else []
    assert texts == {0: " Paris.\n", 1: " Paris.\n"}
    assert reasons == ["length", "length"]
    assert [usage.completion_tokens for usage in usages] == [6]


async def test_completions(sdk: openai.AsyncOpenAI) -> None:
    answer = await sdk.completions.create(model="fake", prompt=["a", "b"], max_tokens=2, echo=True, logprobs=1)
    assert [choice.text for choice in answer.choices] == ["a Paris.", "b Paris."]
    stream = await sdk.completions.create(model="fake", prompt="a", max_tokens=3, stream=True)
    assert "".join([chunk.choices[0].text async for chunk in stream]) == " Paris.\n"


async def test_many_in_parallel(sdk: openai.AsyncOpenAI) -> None:
    calls = [sdk.completions.create(model="fake", prompt=f"{i}", max_tokens=3) for i in range(64)]
    answers = await asyncio.gather(*calls)
    assert {answer.choices[0].text for answer in answers} == {" Paris.\n"}
    assert len({answer.id for answer in answers}) == 64


async def test_errors_are_the_sdks_own_types(sdk: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="temperature"):
        await sdk.chat.completions.create(model="fake", messages=USER, temperature=-1)
    with pytest.raises(openai.BadRequestError, match="temperature"):
        await sdk.chat.completions.create(model="fake", messages=USER, temperature=-1, stream=True)
    with pytest.raises(openai.AuthenticationError):
        await sdk.with_options(api_key="wrong").models.list()
