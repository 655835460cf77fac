"""Smoke tests of libraries that speak OpenAI's protocol. Each is skipped where it is not installed."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from e2e.conftest import Server

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore")]

ASK = "Ann is 30 years old. Answer in JSON."


class Person(BaseModel):
    """A person."""

    name: str
    age: int


def test_instructor(qwen_server: Server) -> None:
    instructor = pytest.importorskip("instructor")
    client = openai.OpenAI(base_url=qwen_server.url + "/v1", api_key="none")
    for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
        person = instructor.from_openai(client, mode=mode).chat.completions.create(
            model="qwen",
            temperature=0,
            max_tokens=64,
            response_model=Person,
            messages=[{"role": "user", "content": ASK}],
        )
        assert (person.name, person.age) == ("Ann", 30)  # of a class that instructor makes


def test_langchain(qwen_server: Server) -> None:
    langchain = pytest.importorskip("langchain_openai")
    llm = langchain.ChatOpenAI(
        model="qwen", base_url=qwen_server.url + "/v1", api_key="none", temperature=0, max_tokens=64
    )
    assert llm.invoke("Say hi.").content
    assert "".join(chunk.content for chunk in llm.stream("Say hi.")) == llm.invoke("Say hi.").content
    for method in ("json_schema", "function_calling"):
        structured: Any = llm.with_structured_output(Person, method=method)
        assert structured.invoke(ASK) == Person(name="Ann", age=30)


def test_litellm(qwen_server: Server) -> None:
    litellm = pytest.importorskip("litellm")
    common = {
        "model": "openai/qwen",
        "api_base": qwen_server.url + "/v1",
        "api_key": "none",
        "temperature": 0,
        "max_tokens": 64,
        "messages": [{"role": "user", "content": "What is the weather in Rome?"}],
    }
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": parameters}}
    answer = litellm.completion(**common, tools=[tool], tool_choice="required", parallel_tool_calls=False)
    call = answer.choices[0].message.tool_calls[0].function
    assert (call.name, list(json.loads(call.arguments))) == ("get_weather", ["city"])
    text = "".join(chunk.choices[0].delta.content or "" for chunk in litellm.completion(**common, stream=True))
    assert text == litellm.completion(**common).choices[0].message.content
