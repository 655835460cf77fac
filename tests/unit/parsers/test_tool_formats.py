"""Every tool-call format: right calls, and the same calls however the answer is cut, damaged or ended."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sglang.parsers.output import TextParser
from sglang.parsers.registry import TOOL_PARSERS, detect_tool_format, make_forced_parser, make_tool_parser
from sglang.parsers.tools.writer import ToolSpecs
from unit.parsers.feed import Make, by_character, same_at_every_cut, same_by_character, whole
from unit.parsers.formats import RENDERS, TOOLS, Call

SPECS = ToolSpecs.of(TOOLS)
RICH: list[Call] = [
    ("f", {"s": 'é"}]</x> \\n\n漢字🦙', "n": 123, "x": -1.5, "b": True, "l": [1, "a", None], "o": {"k": [False]}}),
    ("g_2.h", {}),
    ("f", {"s": "123", "z": None}),
]
SHORT: list[Call] = [("f", {"s": 'é"}', "n": 12}), ("g_2.h", {})]


def maker(case: str) -> Make:
    return lambda: make_tool_parser(RENDERS[case][0], SPECS)


def calls_of(result: Any) -> list[tuple[str, Any, bool]]:
    return [(name, json.loads(arguments), complete) for name, _, arguments, complete in result.calls]


def test_every_name_has_a_case() -> None:
    same = {
        "deepseekv4", "deepseekv41", "gigachat35", "glm", "mimo", "nanbeige", "poolside_v1", "qwen", "step3p5",
        "trinity",
    }  # fmt: skip
    assert {parser for parser, _ in RENDERS.values()} | same == set(TOOL_PARSERS)


@pytest.mark.parametrize("case", RENDERS)
def test_values_of_all_types_arrive_with_their_types(case: str) -> None:
    text = RENDERS[case][1](RICH)
    expected = [(name, arguments, True) for name, arguments in RICH]
    assert calls_of(whole(maker(case), text)) == expected
    assert calls_of(by_character(maker(case), text)) == expected
    assert whole(maker(case), text).text == ""


@pytest.mark.parametrize("case", RENDERS)
def test_cut_at_every_pair_of_boundaries(case: str) -> None:
    same_at_every_cut(maker(case), "<\n" + RENDERS[case][1]([("f", {"s": 'é"'})]) + "!")


@pytest.mark.parametrize("case", RENDERS)
def test_truncated_anywhere(case: str) -> None:
    text = "Hi\n" + RENDERS[case][1](RICH)
    for end in range(len(text)):
        same_by_character(maker(case), text[:end])
    for name, _, arguments, complete in whole(maker(case), text[: len(text) // 2]).calls:
        assert name == "f"
        assert complete is False or json.loads(str(arguments))


@pytest.mark.parametrize("case", RENDERS)
def test_damaged_anywhere(case: str) -> None:
    text = "Hi\n" + RENDERS[case][1](SHORT)
    for at in range(len(text)):
        for damaged in (text[:at] + text[at + 1 :], text[:at] + '"' + text[at:], text[:at] + "}" + text[at:]):
            same_by_character(maker(case), damaged)


@pytest.mark.parametrize("case", [case for case in RENDERS if case != "llama3_bare"])
def test_text_before_a_call_stays_and_the_rest_belongs_to_the_calls(case: str) -> None:
    result = whole(maker(case), " Let me see.\n\n" + RENDERS[case][1](SHORT) + "\ntrailing [f] text")
    assert result.text == " Let me see."
    assert [call[0] for call in result.calls] == ["f", "g_2.h"]


@pytest.mark.parametrize("case", RENDERS)
@pytest.mark.parametrize("text", ["Hello there.\n", "a < b <tool> c [1] {2} (x)", '\n {"a": 1}\n', "", "<tool_cal"])
def test_text_without_a_call_is_untouched(case: str, text: str) -> None:
    assert whole(maker(case), text).text == text
    assert whole(maker(case), text).calls == []
    same_by_character(maker(case), text)


UNMARKED = ("pythonic", "llama3_bare")
"""Formats without markers: what names no tool can only be text."""


@pytest.mark.parametrize("case", RENDERS)
def test_calls_of_unknown_tools_are_dropped(case: str) -> None:
    text = RENDERS[case][1]([("nope", {"s": "x"}), ("f", {"n": 1})])
    result = whole(maker(case), text)
    if case not in UNMARKED:
        assert (result.text, calls_of(result)) == ("", [("f", {"n": 1}, True)])
    same_by_character(maker(case), text)


def test_unknown_tools_can_be_forwarded() -> None:
    specs = ToolSpecs.of(TOOLS, forward_unknown=True)
    text = RENDERS["qwen25"][1]([("nope", {"s": "x"})])
    assert calls_of(whole(lambda: make_tool_parser("qwen25", specs), text)) == [("nope", {"s": "x"}, True)]


@pytest.mark.parametrize(
    ("case", "text", "calls"),
    [
        ("qwen25", "<tool_call>\n{bad json}\n</tool_call>", []),
        ("qwen25", '<tool_call>{"name": "f", "arguments": {"s": }}</tool_call>', [("f", '{"s": ', False)]),
        ("qwen25", '<tool_call>{"name": "f"}</tool_call>', [("f", "{}", True)]),
        ("qwen25", '<tool_call>{"name": "f", "arguments": null}</tool_call>', [("f", "{}", True)]),
        ("qwen25", '<tool_call>{"name": "f", "arguments": "{\\"n\\": 1}"}</tool_call>', [("f", '{"n": 1}', True)]),
        ("qwen25", '<tool_call>{"arguments": {"n": 1}, "name": "f"}</tool_call>', [("f", '{"n": 1}', True)]),
        ("qwen25", '<tool_call>{"name": "f", "arguments": [1]}</tool_call>', [("f", "", False)]),
        ("qwen25", '<tool_call>{"name": "f", "arguments": {"s": "a\nb"}}', [("f", '{"s": "a\\nb"}', True)]),
        ("qwen25", '<tool_call>{"name": "f", "arguments": {"n": 1', [("f", '{"n": 1', False)]),
        (
            "qwen25",
            '<tool_call>{bad}<tool_call>{"name": "f", "arguments": {"s": "</tool_call>"}}</tool_call>',
            [("f", '{"s": "</tool_call>"}', True)],
        ),
        ("mistral_args", "[TOOL_CALLS]f[CALL_ID]abc[ARGS]{}", [("f", "{}", True)]),
        ("llama3", '<|python_tag|>{"name": "f", "parameters": {}}<|eom_id|>', [("f", "{}", True)]),
        ("llama3_bare", '{"type": "function", "name": "f", "parameters": {}}', [("f", "{}", True)]),
        ("llama3_bare", '{"name": "Ann", "age": 3}', []),
        (
            "qwen3_coder",
            "<function=f>\n<parameter=s>\n\nx\n\n</parameter>\n</function>",
            [("f", '{"s": "\\nx\\n"}', True)],
        ),
        ("qwen3_coder", "<tool_call><function=f><parameter=n>x</parameter></function>", [("f", '{"n": "x"}', True)]),
        ("qwen3_coder", "<tool_call>\n<function=f>\n<parameter=s>x", [("f", '{"s": "x', False)]),
        ("qwen3_coder", "<tool_call>\n<func", []),
        (
            "glm45",
            "<tool_call>f\n<arg_key>new</arg_key>\n<arg_value>12</arg_value>\n</tool_call>",
            [("f", '{"new": 12}', True)],
        ),
        (
            "glm45",
            "<tool_call>f\n<arg_key>b</arg_key>\n<arg_value>False</arg_value></tool_call>",
            [("f", '{"b": false}', True)],
        ),
        (
            "glm45",
            "<tool_call>f\n<arg_key>l</arg_key>\n<arg_value>['a', None]</arg_value></tool_call>",
            [("f", '{"l": ["a", null]}', True)],
        ),
        (
            "minimax-m2",
            "<minimax:tool_call><invoke name=f><parameter name='n'>3</parameter></invoke>",
            [("f", '{"n": 3}', True)],
        ),
        (
            "pythonic",
            "[f(s='it\\'s', l=(1, 2.50), b=true, o={'k': None})]",
            [("f", '{"s": "it\'s", "l": [1, 2.5], "b": true, "o": {"k": null}}', True)],
        ),
        ("pythonic", "[f(s=open('x'))]", [("f", '{"s": ', False)]),
        ("pythonic", "[f(1)]", [("f", "", False)]),
        ("pythonic", 'See [f] or [f(s="""a"b""", n=1_000)]', [("f", '{"s": "a\\"b", "n": 1000}', True)]),
        ("lfm2", "<|tool_call_start|>f(n=1)<|tool_call_end|>", [("f", '{"n": 1}', True)]),
        (
            "gemma4",
            '<|tool_call>call:f{s:"j",o:{<|"|>k<|"|>:[1,{}]}}<tool_call|>',
            [("f", '{"s": "j", "o": {"k": [1, {}]}}', True)],
        ),
        (
            "gpt-oss",
            '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"n": 1}',
            [("f", '{"n": 1}', True)],
        ),
        ("gpt-oss", ' to=functions.f<|channel|>commentary json<|message|>{"n": 1}<|call|>', [("f", '{"n": 1}', True)]),
    ],
)
def test_odd_answers(case: str, text: str, calls: list[tuple[str, str, bool]]) -> None:
    result = whole(maker(case), text)
    assert [(name, arguments, complete) for name, _, arguments, complete in result.calls] == calls
    same_by_character(maker(case), text)


def test_kimi_ids_come_from_the_text() -> None:
    result = whole(maker("kimi_k2"), RENDERS["kimi_k2"][1](SHORT))
    assert [call[1] for call in result.calls] == ["functions.f:0", "functions.g_2.h:1"]


def test_the_answer_of_kimi_k3_stands_in_a_block() -> None:
    text = "<|open|>response<|sep|>Hi.<|close|>response<|sep|>"
    assert whole(maker("kimi_k3"), text + "<|close|>message<|sep|>").text == "Hi."
    result = whole(maker("kimi_k3"), text + RENDERS["kimi_k3"][1](SHORT))
    assert (result.text, len(result.calls)) == ("Hi.", 2)
    same_at_every_cut(maker("kimi_k3"), text + "<|close|>message<|sep|>")


@pytest.mark.parametrize("text", ['[{"name": "f", "parameters": {"n": 1}},\n {"name": "g_2.h", "parameters": {}}]'])
def test_forced_list_of_calls(text: str) -> None:
    def make() -> TextParser:
        return make_forced_parser(SPECS)

    assert calls_of(whole(make, text)) == [("f", {"n": 1}, True), ("g_2.h", {}, True)]
    same_at_every_cut(make, text)
    assert whole(make, "Sorry.\n").text == "Sorry.\n"


def test_arguments_arrive_while_they_are_written() -> None:
    """Nothing certain waits: before each closing quote, all characters of the value so far are out."""
    for case in ("qwen25", "mistral_args", "deepseekv31", "qwen3_coder", "pythonic", "gemma4"):
        text = RENDERS[case][1]([("f", {"s": "abcdefgh"})])
        at = text.index("efgh")
        parser = maker(case)()
        events = [event for char in text[:at] for event in parser.push(char)]
        assert "".join(getattr(event, "delta", "") for event in events) == '{"s": "abcd', case


@pytest.mark.parametrize("case", RENDERS)
def test_long_answers_take_time_in_proportion(case: str) -> None:
    """Much text in one piece: work that grows with its square would take minutes."""
    text = RENDERS[case][1]([("f", {"s": "word\n" * 4_000, "l": list(range(8_000))})])
    result = whole(maker(case), text)
    assert json.loads(str(result.calls[0][2]))["l"][-1] == 7_999


def test_calls_beyond_the_limit_are_dropped() -> None:
    specs = ToolSpecs.of(TOOLS, max_calls=1)
    result = whole(lambda: make_tool_parser("qwen25", specs), RENDERS["qwen25"][1](RICH))
    assert [(call[0], call[3]) for call in result.calls] == [("f", True)]


@pytest.mark.parametrize("depth", [50, 5000])
@pytest.mark.parametrize("case", ["qwen25", "pythonic", "gemma4", "glm45"])
def test_deep_nesting_ends_a_call_and_nothing_else(case: str, depth: int) -> None:
    value: Any = "["
    inner = {
        "qwen25": '<tool_call>{"name": "f", "arguments": {"l": %s}}</tool_call>',
        "pythonic": "[f(l=%s)]",
        "gemma4": "<|tool_call>call:f{l:%s}<tool_call|>",
        "glm45": "<tool_call>f<arg_key>l</arg_key><arg_value>%s</arg_value></tool_call>",
    }[case] % (value * depth + "]" * depth)
    result = whole(maker(case), inner)
    assert result.calls[0][3] is (depth == 50 or case == "glm45")


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("...<tool_call>...", "qwen25"),
        ("<tool_call><function=...", "qwen3_coder"),
        ("<tool_call>...<arg_key>", "glm45"),
        ("[TOOL_CALLS]", "mistral"),
        ('<|open|>call tool="', "kimi_k3"),
        ("<｜tool▁calls▁begin｜>```json", "deepseekv3"),
        ("<｜tool▁calls▁begin｜>", "deepseekv31"),
        ("{% if tools %}", None),
    ],
)
def test_format_from_the_template(template: str, name: str | None) -> None:
    assert detect_tool_format(template) == name
