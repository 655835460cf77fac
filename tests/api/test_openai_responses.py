"""The official openai package, unmodified, on /v1/responses of a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from e2e.conftest import Server

pytestmark = pytest.mark.e2e

FRANCE = "What is the capital of France?"
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the current weather in a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


@pytest.fixture(scope="module")
def sdk(stateful_api: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=stateful_api.url + "/v1", api_key="none", max_retries=0, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def qwen(qwen_api: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=qwen_api.url + "/v1", api_key="none", max_retries=0, timeout=120) as client:
        yield client


@pytest.fixture(scope="module")
def said(sdk: openai.OpenAI) -> str:
    """What the model answers, by another route."""
    chat: Any = {"messages": [{"role": "user", "content": FRANCE}], "temperature": 0, "max_tokens": 16}
    return sdk.chat.completions.create(model="smollm2", **chat).choices[0].message.content or ""


def options(**extra: Any) -> dict[str, Any]:
    return {"model": "smollm2", "input": FRANCE, "temperature": 0, "max_output_tokens": 16, **extra}


def long(**extra: Any) -> dict[str, Any]:
    """More than any test waits for."""
    return options(input="Count from 1 to 1000.", max_output_tokens=4000, temperature=1, background=True, **extra)


def test_whole_answer(sdk: openai.OpenAI, said: str) -> None:
    answer = sdk.responses.create(**options())
    assert answer.output_text == said
    assert answer.status in ("completed", "incomplete") and answer.error is None
    assert answer.usage is not None
    assert answer.usage.input_tokens == 37
    assert answer.usage.total_tokens == 37 + answer.usage.output_tokens


def test_the_limit_is_exact(sdk: openai.OpenAI, said: str) -> None:
    answer = sdk.responses.create(**options(max_output_tokens=3))
    assert answer.status == "incomplete" and said.startswith(answer.output_text)
    assert answer.usage is not None and answer.usage.output_tokens == 3


def test_raw_stream(sdk: openai.OpenAI, said: str) -> None:
    with sdk.responses.create(**options(stream=True)) as stream:
        events = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    last = events[-1]
    assert last.type in ("response.completed", "response.incomplete")
    assert last.response.output_text == text == said


YES: Any = {
    "type": "json_schema", "name": "yes", "strict": True,
    "schema": {
        "type": "object", "properties": {"yes": {"type": "boolean"}}, "required": ["yes"],
        "additionalProperties": False,
    },
}  # fmt: skip


def test_stream_helper(sdk: openai.OpenAI) -> None:
    with sdk.responses.stream(**options(max_output_tokens=100, text={"format": YES})) as stream:
        snapshots = [event.snapshot for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert snapshots[-1] == final.output_text
    assert all(later.startswith(earlier) for earlier, later in pairwise(snapshots))
    assert isinstance(json.loads(final.output_text)["yes"], bool)


def test_async(stateful_api: Server, said: str) -> None:
    async def run() -> list[str]:
        async with openai.AsyncOpenAI(base_url=stateful_api.url + "/v1", api_key="none", max_retries=0) as client:
            whole = await asyncio.gather(*(client.responses.create(**options()) for _ in range(4)))
            deltas = [
                event.delta
                async for event in await client.responses.create(**options(stream=True))
                if event.type == "response.output_text.delta"
            ]
            return [*(answer.output_text for answer in whole), "".join(deltas)]

    assert asyncio.run(run()) == [said] * 5


class Capital(BaseModel):
    city: str
    letters: int


def test_parse_into_a_pydantic_model(sdk: openai.OpenAI) -> None:
    answer = sdk.responses.parse(**options(max_output_tokens=200), text_format=Capital)
    assert isinstance(answer.output_parsed, Capital)
    with sdk.responses.stream(**options(max_output_tokens=200), text_format=Capital) as stream:
        assert stream.get_final_response().output_parsed == answer.output_parsed


def test_logprobs_are_those_of_the_tokens(sdk: openai.OpenAI) -> None:
    answer = sdk.responses.create(**options(), include=["message.output_text.logprobs"], top_logprobs=2)
    part = answer.output[0].content[0]  # type: ignore[union-attr,index]
    assert part.type == "output_text" and part.logprobs is not None
    assert answer.usage is not None and len(part.logprobs) == answer.usage.output_tokens
    assert "".join(entry.token for entry in part.logprobs).startswith(answer.output_text)
    for entry in part.logprobs:
        assert entry.top_logprobs[0].token == entry.token  # greedy
        assert entry.top_logprobs[0].logprob == entry.logprob >= entry.top_logprobs[1].logprob


def test_a_conversation_goes_on_by_its_id(sdk: openai.OpenAI) -> None:
    first = sdk.responses.create(**options(input="My name is Ada. Remember it.", max_output_tokens=24))
    second = sdk.responses.create(**options(input="What is my name?"), previous_response_id=first.id)
    explicit = sdk.responses.create(
        **options(
            input=[
                {"role": "user", "content": "My name is Ada. Remember it."},
                {"role": "assistant", "content": first.output_text},
                {"role": "user", "content": "What is my name?"},
            ]
        )
    )
    assert second.previous_response_id == first.id
    assert second.output_text == explicit.output_text
    assert second.usage is not None and explicit.usage is not None
    assert second.usage.input_tokens == explicit.usage.input_tokens
    by_items = sdk.responses.create(
        **options(input=[
            {"role": "user", "content": "My name is Ada. Remember it."}, *first.output,
            {"role": "user", "content": "What is my name?"},
        ])
    )  # fmt: skip
    assert by_items.output_text == explicit.output_text
    assert sdk.responses.retrieve(second.id) == second


def test_input_items_are_listed_and_referred_to(sdk: openai.OpenAI) -> None:
    first = sdk.responses.create(**options(input="Say hi."))
    items = list(sdk.responses.input_items.list(first.id, order="asc", limit=1))
    assert [item.content[0].text for item in items] == ["Say hi."]  # type: ignore[union-attr]
    known = [{"type": "item_reference", "id": item.id} for item in (*items, first.output[0])]
    again = sdk.responses.create(**options(input=[*known, {"role": "user", "content": "Again."}]))
    by_id = sdk.responses.create(**options(input="Again.", previous_response_id=first.id))
    assert again.output_text == by_id.output_text
    listed = list(sdk.responses.input_items.list(again.id, limit=2))  # two pages
    assert len(listed) == 3


def test_background_is_polled_to_its_end(sdk: openai.OpenAI, said: str) -> None:
    answer = sdk.responses.create(**options(background=True))
    assert answer.status in ("queued", "in_progress")
    while answer.status in ("queued", "in_progress"):
        answer = sdk.responses.retrieve(answer.id)
    assert answer.status in ("completed", "incomplete") and answer.output_text == said


def test_cancel_frees_the_model(sdk: openai.OpenAI, stateful_api: Server) -> None:
    answer = sdk.responses.create(**long())
    assert sdk.responses.cancel(answer.id).status == "cancelled"
    assert sdk.responses.retrieve(answer.id).status == "cancelled"
    with stateful_api.client() as http:
        while http.get("/get_load").json()[0]["num_reqs"]:
            pass  # a request that was not aborted would run into the test's timeout


def test_a_background_stream_is_taken_up_again(sdk: openai.OpenAI) -> None:
    with sdk.responses.create(**long(stream=True)) as stream:
        first = [next(stream) for _ in range(6)]
    name = first[0].response.id  # type: ignore[union-attr]
    with sdk.responses.retrieve(name, stream=True, starting_after=first[-1].sequence_number) as rest:
        following = next(iter(rest))
        assert following.sequence_number == first[-1].sequence_number + 1
        sdk.responses.cancel(name)
        *_, last = rest
    assert last.type == "response.failed" and last.response.status == "cancelled"
    with sdk.responses.retrieve(name, stream=True) as again:
        assert [event for event, _ in zip(again, first, strict=False)] == first


def test_delete(sdk: openai.OpenAI) -> None:
    answer = sdk.responses.create(**options())
    sdk.responses.delete(answer.id)
    with pytest.raises(openai.NotFoundError):
        sdk.responses.retrieve(answer.id)


def test_tools_round_trip(qwen: openai.OpenAI) -> None:
    ask: Any = {"role": "user", "content": "What is the weather in Rome?"}
    request: dict[str, Any] = {"model": "qwen", "tools": [WEATHER], "temperature": 0, "max_output_tokens": 48}
    answer = qwen.responses.create(**request, input=[ask], tool_choice="required", parallel_tool_calls=False)
    call = answer.output[-1]
    assert call.type == "function_call" and call.name == "get_weather"
    assert json.loads(call.arguments)["city"]
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "22 degrees, sunny"}
    request["max_output_tokens"] = 4
    second = qwen.responses.create(**request, input=[ask, *answer.output, result], tool_choice="none")
    assert second.output_text and second.usage is not None and answer.usage is not None
    without_result = qwen.responses.create(**request, input=[ask], tool_choice="none")
    assert without_result.usage is not None
    assert second.usage.input_tokens > without_result.usage.input_tokens + 10  # the call and its result were read


def test_streamed_call_is_the_whole_one(qwen: openai.OpenAI) -> None:
    request: dict[str, Any] = {
        "model": "qwen", "tools": [WEATHER], "temperature": 0, "max_output_tokens": 64,
        "input": "What is the weather in Rome?", "tool_choice": {"type": "function", "name": "get_weather"},
    }  # fmt: skip
    whole = qwen.responses.create(**request)
    with qwen.responses.stream(**request) as stream:
        deltas = [e.delta for e in stream if e.type == "response.function_call_arguments.delta"]
        final = stream.get_final_response()
    call = final.output[-1]
    assert call.type == "function_call" and whole.output[-1].type == "function_call"
    assert "".join(deltas) == call.arguments == whole.output[-1].arguments
    assert call.parsed_arguments == json.loads(call.arguments)  # type: ignore[attr-defined]


def test_errors_are_the_sdks_own_types(sdk: openai.OpenAI, qwen: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        sdk.responses.create(**options(model="nope"))
    assert unknown.value.param == "model"
    with pytest.raises(openai.BadRequestError, match="temperature"):
        sdk.responses.create(**options(temperature=-1, stream=True))
    with pytest.raises(openai.NotFoundError):
        sdk.responses.create(**options(), previous_response_id="resp_unknown")
    with pytest.raises(openai.BadRequestError) as off:  # this server keeps nothing
        qwen.responses.create(model="qwen", input="x", background=True)
    assert off.value.param == "background"
