"""What templates get to see of tools."""

from __future__ import annotations

from typing import Any

import pytest

from sglang.api.chat.render import render
from sglang.api.chat.request import ChatPrompt, ChatRequest, ToolChoice
from sglang.api.chat.tools import rendered_tools
from sglang.ipc.errors import InvalidRequest
from sglang.text.chat_template import ChatTemplate

F: dict[str, Any] = {
    "type": "function",
    "function": {"name": "f", "description": "d", "parameters": {"type": "object"}},
}
G: dict[str, Any] = {"type": "function", "function": {"name": "g", "strict": True}}


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (ToolChoice("auto"), ["f", "g"]),
        (ToolChoice("required"), ["f", "g"]),
        (ToolChoice("named", "g"), ["g"]),
        (ToolChoice("none"), None),
    ],
)
def test_which_tools_are_shown(choice: ToolChoice, names: list[str] | None) -> None:
    shown = rendered_tools(ChatRequest(messages=[], tools=[F, G], tool_choice=choice))
    assert (None if shown is None else [tool["function"]["name"] for tool in shown]) == names


def test_fields_that_were_left_out_are_null_behind_the_given_ones() -> None:
    shown = rendered_tools(ChatRequest(messages=[], tools=[G]))
    assert shown is not None
    function = {"name": "g", "strict": True, "description": None, "parameters": None, "defer_loading": None}
    assert [list(tool["function"].items()) for tool in shown] == [list(function.items())]
    assert "description" not in G["function"]


HI = [{"role": "user", "content": "Hi"}]


def test_templates_that_want_bare_functions_get_them() -> None:
    template = ChatTemplate("{% for t in tools %}{{ t.name + ';' }}{% endfor %}{{ messages[0].content }}", {})
    assert render(template, ChatPrompt(HI, tools=[F])) == "f;Hi"


def test_a_template_that_fails_either_way_says_what_it_said_first() -> None:
    template = ChatTemplate("{{ raise_exception('no tools' if tools[0].function else 'no functions') }}", {})
    with pytest.raises(InvalidRequest, match="no tools"):
        render(template, ChatPrompt(HI, tools=[F]))


def test_history_of_several_calls_renders_with_all_results() -> None:
    source = (
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}"
        "{% for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}"
        "{% endfor %}"
    )
    calls = [
        {"id": f"c{at}", "type": "function", "function": {"name": "f", "arguments": f'{{"n": {at}}}'}}
        for at in range(2)
    ]
    messages = [
        *HI,
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c0", "content": "one"},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "two"}]},
        *HI,
    ]
    text = render(ChatTemplate(source, {}), ChatPrompt(messages))
    assert text == '[user]Hi[assistant]f{"n": 0}f{"n": 1}[tool]one[tool]two[user]Hi'
