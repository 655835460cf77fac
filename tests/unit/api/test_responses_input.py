"""Input items of /v1/responses as chat messages."""

from __future__ import annotations

from typing import Any

import pytest

from sglang.api.openai.responses.input import encode_reasoning, input_items, to_messages

CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"n":1}'}
CALLED = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"n":1}'}}
SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I ask."}]}
THOUGHT = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}], "summary": []}


def text(value: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": value}]


@pytest.mark.parametrize(
    ("items", "messages"),
    [
        ("Hi", [{"role": "user", "content": "Hi"}]),
        ([{"role": "user", "content": "Hi"}], [{"role": "user", "content": "Hi"}]),
        (
            [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Hi"}]}],
            [{"role": "developer", "content": text("Hi")}],
        ),
        ([SAID], [{"role": "assistant", "content": text("I ask.")}]),
        (
            [{"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}],
            [{"role": "assistant", "content": text("No.")}],
        ),
        ([CALL], [{"role": "assistant", "content": None, "tool_calls": [CALLED]}]),
        (
            [SAID, CALL, {**CALL, "call_id": "c2"}],
            [{"role": "assistant", "content": text("I ask."), "tool_calls": [CALLED, {**CALLED, "id": "c2"}]}],
        ),
        (
            [CALL, {"type": "function_call_output", "call_id": "c1", "output": "7"}, CALL],
            [
                {"role": "assistant", "content": None, "tool_calls": [CALLED]},
                {"role": "tool", "tool_call_id": "c1", "content": "7", "name": "f"},
                {"role": "assistant", "content": None, "tool_calls": [CALLED]},
            ],
        ),
        (
            [{"type": "function_call_output", "call_id": "c9", "output": [{"type": "input_text", "text": "7"}]}],
            [{"role": "tool", "tool_call_id": "c9", "content": text("7")}],
        ),
        (
            [{"type": "custom_tool_call", "call_id": "c1", "name": "f", "input": "x"}],
            [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{**CALLED, "function": {"name": "f", "arguments": {"input": "x"}}}],
                }
            ],
        ),
        ([THOUGHT, SAID], [{"role": "assistant", "content": text("I ask."), "reasoning_content": "hm"}]),
        (
            [SAID, THOUGHT, CALL],
            [
                {"role": "assistant", "content": text("I ask.")},
                {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [CALLED]},
            ],
        ),
        ([THOUGHT, {"role": "user", "content": "Hi"}], [{"role": "user", "content": "Hi"}]),
        (
            [{"type": "reasoning", "summary": [], "encrypted_content": encode_reasoning("hé")}, CALL],
            [{"role": "assistant", "content": None, "reasoning_content": "hé", "tool_calls": [CALLED]}],
        ),
    ],
)
def test_items_become_messages(items: Any, messages: Any) -> None:
    assert to_messages(None, input_items(items)) == messages


def test_instructions_come_first() -> None:
    messages = to_messages("Be brief.", input_items("Hi"))
    assert messages == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
