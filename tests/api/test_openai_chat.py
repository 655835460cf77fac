"""The official openai package, unmodified, on /v1/chat/completions of a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, Literal

import jsonschema
import openai
import pytest
from pydantic import BaseModel

from e2e.conftest import Server

pytestmark = pytest.mark.e2e

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather in a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "City name"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 7},
            },
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}
PING: dict[str, Any] = {"type": "function", "function": {"name": "ping", "description": "Check that all is well"}}
ASK: Any = [{"role": "user", "content": "What is the weather in Rome in celsius?"}]
SCHEMAS = {"get_weather": WEATHER["function"]["parameters"], "ping": {"type": "object"}}


@pytest.fixture(scope="module")
def sdk(qwen_server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=qwen_server.url + "/v1", api_key="none", max_retries=0, timeout=120) as client:
        yield client


def options(**extra: Any) -> dict[str, Any]:
    return {"model": "qwen", "messages": ASK, "temperature": 0, "max_tokens": 64, **extra}


def check_calls(calls: Any) -> list[str]:
    """Names of the calls, whose arguments must be what the schemas say."""
    for call in calls:
        assert call.id.startswith("call_")
        jsonschema.validate(json.loads(call.function.arguments), SCHEMAS[call.function.name])
    return [call.function.name for call in calls]


def test_answer_and_stream_are_the_same(sdk: openai.OpenAI) -> None:
    whole = sdk.chat.completions.create(**options(max_tokens=16, seed=3, logprobs=True, top_logprobs=2))
    stream = sdk.chat.completions.create(
        **options(max_tokens=16, seed=3, stream=True, stream_options={"include_usage": True})
    )
    text, reasons, usages = "", [], []
    for chunk in stream:
        usages += [chunk.usage] if chunk.usage else []
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reasons += [choice.finish_reason] if choice.finish_reason else []
    assert text == whole.choices[0].message.content
    assert text
    assert reasons == [whole.choices[0].finish_reason]
    assert whole.usage is not None
    assert [usage.completion_tokens for usage in usages] == [whole.usage.completion_tokens]
    logprobs = whole.choices[0].logprobs
    assert logprobs is not None
    assert len(logprobs.content or ()) == whole.usage.completion_tokens
    assert all(entry.top_logprobs[0].token == entry.token for entry in logprobs.content or ())


def test_cached_prompt_tokens_are_reported(sdk: openai.OpenAI) -> None:
    long: Any = [{"role": "user", "content": "The weather is fine. " * 40}]
    first, second = (sdk.chat.completions.create(**options(messages=long, max_tokens=1)) for _ in range(2))
    assert first.usage is not None and second.usage is not None and second.usage.prompt_tokens_details is not None
    assert (second.usage.prompt_tokens_details.cached_tokens or 0) > 100
    assert second.usage.prompt_tokens == first.usage.prompt_tokens


async def test_async_client_runs_many_at_once(qwen_server: Server) -> None:
    async with openai.AsyncOpenAI(base_url=qwen_server.url + "/v1", api_key="none", max_retries=0) as client:
        calls = [client.chat.completions.create(**options(max_tokens=8, n=2)) for _ in range(4)]
        answers = await asyncio.gather(*calls)
        texts = {choice.message.content for answer in answers for choice in answer.choices}
        assert len(texts) == 1
        stream = await client.chat.completions.create(**options(max_tokens=8, stream=True))
        assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) in texts


class Person(BaseModel):
    name: str
    age: int
    mood: Literal["glad", "sad"]


# Our metadata holds lists (weight versions), as existing servers send it; the SDK types it as texts and warns.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_parse_gives_pydantic_models(sdk: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "Ann is 30 years old and glad. Answer in JSON."}]
    answer = sdk.chat.completions.parse(**options(messages=messages), response_format=Person)
    assert answer.choices[0].message.parsed == Person(name="Ann", age=30, mood="glad")
    with sdk.chat.completions.stream(**options(messages=messages), response_format=Person) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.parsed == answer.choices[0].message.parsed


def test_json_object(sdk: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "Give a small JSON object."}]
    answer = sdk.chat.completions.create(**options(messages=messages, response_format={"type": "json_object"}))
    assert isinstance(json.loads(answer.choices[0].message.content or ""), dict)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
@pytest.mark.parametrize("temperature", [0, 1])
def test_forced_calls_always_validate(sdk: openai.OpenAI, choice: Any, temperature: float) -> None:
    extra = options(tools=[WEATHER, PING], tool_choice=choice, temperature=temperature, seed=1, max_tokens=120)
    answer = sdk.chat.completions.create(**extra, n=4)
    for item in answer.choices:
        names = check_calls(item.message.tool_calls or ())
        assert item.finish_reason == "tool_calls" if names else item.finish_reason == "length"
        if choice != "required":
            assert names == ["get_weather"]


def test_stream_helper_puts_calls_together(sdk: openai.OpenAI) -> None:
    with sdk.chat.completions.stream(
        **options(tools=[WEATHER], tool_choice="required", parallel_tool_calls=False)
    ) as stream:
        events = [event.type for event in stream]
        final = stream.get_final_completion()
    assert "tool_calls.function.arguments.delta" in events
    assert check_calls(final.choices[0].message.tool_calls or ()) == ["get_weather"]
    assert final.choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize("stream", [False, True])
def test_tool_without_parameters_gets_an_empty_object(sdk: openai.OpenAI, stream: bool) -> None:
    extra = options(tools=[PING], tool_choice="required", parallel_tool_calls=False)
    if not stream:
        calls = sdk.chat.completions.create(**extra).choices[0].message.tool_calls or ()
        assert [json.loads(call.function.arguments) for call in calls] == [{}]  # type: ignore[union-attr]
        return
    deltas = [
        call.function.arguments or ""
        for chunk in sdk.chat.completions.create(**extra, stream=True)
        for call in chunk.choices[0].delta.tool_calls or ()
        if call.function is not None
    ]
    assert json.loads("".join(deltas)) == {}


def test_round_trip_with_results(sdk: openai.OpenAI) -> None:
    first = sdk.chat.completions.create(**options(tools=[WEATHER], tool_choice="required", parallel_tool_calls=False))
    message = first.choices[0].message
    assert message.tool_calls
    results: Any = [
        {"role": "tool", "tool_call_id": call.id, "content": [{"type": "text", "text": '{"temperature": 21}'}]}
        for call in message.tool_calls
    ]
    history: Any = [*ASK, message, *results]
    second = sdk.chat.completions.create(**options(messages=history, tools=[WEATHER], tool_choice="none"))
    assert "21" in (second.choices[0].message.content or "")


@pytest.mark.parametrize("choice", ["none", "auto", "required", "named"])
@pytest.mark.parametrize("stream", [False, True])
def test_calls_and_finish_reason_agree(sdk: openai.OpenAI, choice: str, stream: bool) -> None:
    tool_choice: Any = {"type": "function", "function": {"name": "ping"}} if choice == "named" else choice
    extra = options(tools=[WEATHER, PING], tool_choice=tool_choice, parallel_tool_calls=False)
    if stream:
        with sdk.chat.completions.stream(**extra) as events:
            final: Any = events.get_final_completion()
    else:
        final = sdk.chat.completions.create(**extra)
    names = [call.function.name for call in final.choices[0].message.tool_calls or ()]
    assert final.choices[0].finish_reason == ("tool_calls" if names else "stop")
    if choice != "auto":
        assert bool(names) is (choice != "none")
    if choice == "named":
        assert names == ["ping"]


def test_forced_text_is_parsed_the_same_in_both_modes(sdk: openai.OpenAI) -> None:
    arguments_regex = r'\{"city": "R\\u00f6m \\"é\\"", "unit": "celsius"\}'
    call = r'<tool_call>\n\{"name": "get_weather", "arguments": ' + arguments_regex + r"\}\n</tool_call>"
    body = options(
        tools=[WEATHER], max_tokens=120, extra_body={"regex": "Sure: a < b\\.\n" + call + "\n" + call + " ok"}
    )
    whole = sdk.chat.completions.create(**body).choices[0].message
    text, arguments = "", ["", ""]
    for chunk in sdk.chat.completions.create(**body, stream=True):
        text += chunk.choices[0].delta.content or ""
        for delta in chunk.choices[0].delta.tool_calls or ():
            arguments[delta.index] += (delta.function.arguments if delta.function else None) or ""
    assert (whole.content, text) == ("Sure: a < b.", "Sure: a < b.")
    assert arguments == [call.function.arguments for call in whole.tool_calls or ()]  # type: ignore[union-attr]
    assert json.loads(arguments[0]) == {"city": 'Röm "é"', "unit": "celsius"}


def test_continue_final_message(sdk: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "Say hi."}, {"role": "assistant", "content": "Hi the"}]
    body = options(messages=messages, max_tokens=6, extra_body={"continue_final_message": True})
    assert (sdk.chat.completions.create(**body).choices[0].message.content or "").startswith((" ", "r"))


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"model": "qwen:nope"}, "nope"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "'x'"),
        ({"tool_choice": "required"}, "tools"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "x"}}}}, "type"),
        ({"extra_body": {"return_hidden_states": True}}, "hidden states"),
        ({"logit_bias": {"999999": 1}}, "logit_bias"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_refusals_are_the_sdks_own_errors(sdk: openai.OpenAI, extra: dict[str, Any], words: str, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError, match=words):
        sdk.chat.completions.create(**options(**extra), stream=stream)
