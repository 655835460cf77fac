"""Anthropic's own SDK, unmodified, against real models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import anthropic
import pydantic
import pytest

from api.conftest import API_KEY
from e2e.conftest import Server

pytestmark = pytest.mark.e2e

GREEDY = {"temperature": 0}
"""Not a parameter of the present SDK, but still of the API."""
FRANCE: Any = [{"role": "user", "content": "What is the capital of France?"}]
ASK: dict[str, Any] = {"model": "smollm2", "messages": FRANCE, "max_tokens": 16, "extra_body": GREEDY}
WEATHER: Any = {
    "name": "get_weather",
    "description": "Get the current weather in a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
ROME: Any = [{"role": "user", "content": "What is the weather in Rome? Use the get_weather tool."}]
TOOLS: dict[str, Any] = {"model": "qwen", "messages": ROME, "max_tokens": 64, "tools": [WEATHER], "extra_body": GREEDY}


@pytest.fixture(scope="module")
def smol(smol_api: Server) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=smol_api.url, api_key=API_KEY, max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def qwen(qwen_api: Server) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=qwen_api.url, api_key="any", max_retries=0) as client:
        yield client


def text_of(message: Any) -> str:
    assert [block.type for block in message.content] == ["text"]
    return str(message.content[0].text)


def test_message(smol: anthropic.Anthropic) -> None:
    message = smol.messages.create(**ASK)
    assert text_of(message)
    assert (message.role, message.type, message.model) == ("assistant", "message", "smollm2")
    cut = message.usage.output_tokens == 16
    assert (message.stop_reason, message.stop_sequence) == ("max_tokens" if cut else "end_turn", None)
    assert message.usage.input_tokens == 37


def test_system_blocks_and_unknown_fields(smol: anthropic.Anthropic) -> None:
    """System prompts come as text, as blocks with cache hints, and inside the list; each is read once."""
    counts = set()
    block = {"type": "text", "text": "You are terse.", "cache_control": {"type": "ephemeral"}}
    for extra in (
        {"system": "You are terse."},
        {"system": [block]},
        {"messages": [{"role": "system", "content": "You are terse."}, *FRANCE]},
    ):
        message = smol.messages.create(**{**ASK, "extra_body": {**GREEDY, "new_field": {"a": 1}}, **extra})
        counts.add(message.usage.input_tokens)
    assert len(counts) == 1


def test_stop_sequences_are_reported(smol: anthropic.Anthropic) -> None:
    whole = text_of(smol.messages.create(**ASK))
    stop = whole[7:11]
    message = smol.messages.create(**ASK, stop_sequences=["never", stop])
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", stop)
    assert text_of(message) == whole[: whole.index(stop)]
    message = smol.messages.create(**{**ASK, "max_tokens": 2}, stop_sequences=["never"])
    assert (message.stop_reason, message.stop_sequence) == ("max_tokens", None)


def test_prefilled_answer_is_continued(smol: anthropic.Anthropic) -> None:
    messages = [*FRANCE, {"role": "assistant", "content": "The capital of France is"}]
    assert text_of(smol.messages.create(**{**ASK, "messages": messages})).startswith(" Paris")


def test_stream_helper_equals_the_whole_answer(smol: anthropic.Anthropic) -> None:
    kinds = []
    with smol.messages.stream(**ASK) as stream:
        for event in stream:
            kinds.append(event.type)
        final = stream.get_final_message()
    whole = smol.messages.create(**ASK)
    assert final.content[0].model_dump(include={"type", "text"}) == whole.content[0].model_dump(
        include={"type", "text"}
    )
    assert (final.stop_reason, final.usage.output_tokens) == (whole.stop_reason, whole.usage.output_tokens)
    assert final.usage.input_tokens == whole.usage.input_tokens
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")
    with smol.messages.stream(**ASK) as stream:
        assert "".join(stream.text_stream) == text_of(whole)


async def test_async_stream(smol_api: Server, smol: anthropic.Anthropic) -> None:
    whole = smol.messages.create(**ASK)
    async with anthropic.AsyncAnthropic(base_url=smol_api.url, auth_token=API_KEY, max_retries=0) as client:
        texts, end = "", None
        async for event in await client.messages.create(**ASK, stream=True):
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                texts += event.delta.text
            elif event.type == "message_delta":
                end = event
    assert texts == text_of(whole)
    assert end is not None
    assert (end.delta.stop_reason, end.usage.output_tokens) == (whole.stop_reason, whole.usage.output_tokens)


def test_count_tokens_equals_what_is_used(smol: anthropic.Anthropic) -> None:
    for extra in ({}, {"system": "You are terse."}):
        counted = smol.messages.count_tokens(model="smollm2", messages=FRANCE, **extra)
        used = smol.messages.create(**{**ASK, "max_tokens": 1}, **extra)
        assert counted.input_tokens == used.usage.input_tokens


def test_errors_are_the_sdks_own_types(smol: anthropic.Anthropic, smol_api: Server) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    with pytest.raises(anthropic.BadRequestError, match="text only") as refused:
        smol.messages.create(**{**ASK, "messages": [{"role": "user", "content": [image]}]})
    assert refused.value.body == {
        "type": "error", "error": {"type": "invalid_request_error", "message": refused.value.body["error"]["message"]}  # type: ignore[index]
    }  # fmt: skip
    with pytest.raises(anthropic.BadRequestError, match="temperature"):
        smol.messages.create(**{**ASK, "extra_body": {"temperature": -1}})
    with pytest.raises(anthropic.BadRequestError, match="8192"):
        smol.messages.create(**{**ASK, "messages": [{"role": "user", "content": "hello " * 9000}]})
    with pytest.raises(anthropic.APIStatusError, match="8192"):
        list(smol.messages.create(**{**ASK, "messages": [{"role": "user", "content": "hello " * 9000}]}, stream=True))
    with pytest.raises(anthropic.NotFoundError):
        smol.messages.batches.list()
    with pytest.raises(anthropic.AuthenticationError):
        anthropic.Anthropic(base_url=smol_api.url, api_key="wrong", max_retries=0).messages.create(**ASK)


def test_tools_round_trip(qwen: anthropic.Anthropic) -> None:
    message = qwen.messages.create(**TOOLS, tool_choice={"type": "any"})
    assert message.stop_reason == "tool_use"
    call = message.content[-1]
    assert call.type == "tool_use" and call.name == "get_weather" and call.input == {"city": "Rome"}
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "21 C, sunny"}]}
    history = [*ROME, {"role": "assistant", "content": message.content}, {"role": "user", "content": [result]}]
    answer = qwen.messages.create(**{**TOOLS, "messages": history, "max_tokens": 8}, tool_choice={"type": "none"})
    assert text_of(answer)
    alone = qwen.messages.count_tokens(model="qwen", messages=ROME)
    assert answer.usage.input_tokens > alone.input_tokens + 20  # the call and its result are in the prompt


def test_a_named_tool_is_called_in_a_stream(qwen: anthropic.Anthropic) -> None:
    pieces = ""
    with qwen.messages.stream(**TOOLS, tool_choice={"type": "tool", "name": "get_weather"}) as stream:
        for event in stream:
            if event.type == "input_json":
                pieces += event.partial_json
        final = stream.get_final_message()
    assert final.content[0].type == "tool_use"
    assert final.content[0].input == {"city": "Rome"}
    assert pieces.replace(" ", "") == '{"city":"Rome"}'
    assert final.stop_reason == "tool_use"


class Town(pydantic.BaseModel):
    name: Literal["Paris", "Rome"]
    large: bool


def test_structured_output(qwen: anthropic.Anthropic) -> None:
    ask: dict[str, Any] = {"model": "qwen", "messages": FRANCE, "max_tokens": 48}
    message = qwen.messages.parse(**ask, output_format=Town)
    assert isinstance(message.parsed_output, Town)
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    raw = qwen.messages.create(**ask, output_config={"format": {"type": "json_schema", "schema": schema}})
    assert json.loads(text_of(raw))["n"] in (1, 2)
