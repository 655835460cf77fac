"""Thinking parsers: the split, and the same split at every cut; markers never leak and wait no longer than needed."""

from __future__ import annotations

from typing import Any

import pytest

from sglang.parsers.events import ParserEvent, ReasoningDelta, TextDelta
from sglang.parsers.harmony import HarmonyParser
from sglang.parsers.output import OutputParser
from sglang.parsers.reasoning import FORMATS, PrependThink, ReasoningParser, detect_reasoning
from sglang.parsers.registry import make_tool_parser
from sglang.parsers.tools.writer import ToolSpecs
from unit.parsers.feed import Make, by_character, feed, same_at_every_cut, same_by_character, whole
from unit.parsers.formats import RENDERS, TOOLS

MARKED = [name for name, form in FORMATS.items() if form.kind == "markers"]
SPECS = ToolSpecs.of(TOOLS)


def maker(name: str, **options: Any) -> Make:
    return lambda: ReasoningParser(FORMATS[name], **options)


@pytest.mark.parametrize("name", MARKED)
def test_thoughts_and_answer_at_every_cut(name: str) -> None:
    form = FORMATS[name]
    text = f"\n{form.start}a\n<é{form.end}\n\nb <c"
    result = whole(maker(name), text)
    assert (result.reasoning, result.text) == ("a\n<é", "\n\nb <c")
    same_at_every_cut(maker(name), text)
    for end in range(len(text)):
        same_by_character(maker(name), text[:end])


@pytest.mark.parametrize("name", MARKED)
def test_opened_by_the_template(name: str) -> None:
    form = FORMATS[name]
    make = maker(name, inside=True)
    result = whole(make, f"plan{form.end}answer")
    assert (result.reasoning, result.text) == ("plan", "answer")
    same_by_character(make, f"plan{form.end}answer")
    assert whole(make, f"{form.start}plan{form.end}answer") == result
    assert whole(make, "only thoughts").reasoning == "only thoughts"


def test_answer_that_looks_like_tags_is_not_swallowed() -> None:
    for inside in (False, True):
        result = by_character(maker("qwen3", inside=inside), "</think>a </b> 1<2 <thin ice")
        assert (result.reasoning, result.text) == ("", "a </b> 1<2 <thin ice")


def test_without_a_beginning_nothing_is_thinking() -> None:
    assert whole(maker("qwen3"), " Hello </think>").text == " Hello </think>"


@pytest.mark.parametrize("name", [name for name in MARKED if FORMATS[name].interrupts])
def test_a_tool_call_ends_thinking(name: str) -> None:
    form = FORMATS[name]
    text = f"{form.start}hm{form.interrupts[0]}x"
    result = whole(maker(name), text)
    assert (result.reasoning, result.text) == ("hm", f"{form.interrupts[0]}x")
    same_at_every_cut(maker(name), text)


def test_only_what_may_be_a_marker_waits() -> None:
    parser = ReasoningParser(FORMATS["deepseek-r1"])
    assert parser.push("abc<") == [ReasoningDelta("abc")]
    assert parser.push("b</thi") == [ReasoningDelta("<b")]
    assert parser.push("nk>done <") == [TextDelta("done <")]


def test_thoughts_in_one_piece() -> None:
    def make() -> OutputParser:
        return OutputParser(ReasoningParser(FORMATS["deepseek-r1"]), stream_reasoning=False)

    parser = make()
    assert parser.push("abc") == []
    assert parser.push("def</think>") == []
    assert parser.push("x") == [ReasoningDelta("abcdef"), TextDelta("x")]
    assert feed(make(), ["abc"]).reasoning == "abc"
    same_at_every_cut(make, "ab</think>c")


def test_thoughts_that_stay_in_the_text_are_not_searched_for_calls() -> None:
    call = RENDERS["qwen25"][1]([("f", {"n": 1})])

    def make() -> OutputParser:
        reasoning = ReasoningParser(FORMATS["deepseek-r1"], inside=False, keep_markers=True)
        return OutputParser(reasoning, make_tool_parser("qwen25", SPECS), inline_reasoning=True)

    result = whole(make, f"<think>maybe {call}</think>\n{call}")
    assert result.text == f"<think>maybe {call}</think>"
    assert [name for name, *_ in result.calls] == ["f"]
    same_by_character(make, f"<think>maybe {call}</think>\n{call}")


def test_thinking_then_text_then_calls() -> None:
    def make() -> OutputParser:
        return OutputParser(ReasoningParser(FORMATS["qwen3"]), make_tool_parser("qwen25", SPECS))

    text = "<think>plan</think>\n\nSure.\n" + RENDERS["qwen25"][1]([("f", {"s": "é"})])
    result = whole(make, text)
    assert (result.reasoning, result.text, len(result.calls)) == ("plan", "\n\nSure.", 1)
    same_by_character(make, text)


def test_append_think_gives_the_opening_back() -> None:
    assert whole(lambda: PrependThink(FORMATS["minimax-append-think"]), "a</think>b").text == "<think>a</think>b"
    assert whole(lambda: PrependThink(FORMATS["minimax-append-think"]), "").text == ""


HARMONY = (
    "<|channel|>analysis<|message|>think <|end|><|start|>assistant<|channel|>commentary<|message|>Wait. <|end|>"
    '<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"n": 1}<|call|>'
)


@pytest.mark.parametrize(
    ("separate", "tools", "text", "reasoning", "calls"),
    [
        (True, SPECS, "Wait.", "think ", 1),
        (False, SPECS, "think Wait.", "", 1),
        (True, None, 'Wait. {"n": 1}', "think ", 0),
    ],
)
def test_harmony_channels(separate: bool, tools: ToolSpecs | None, text: str, reasoning: str, calls: int) -> None:
    def make() -> HarmonyParser:
        return HarmonyParser(separate, tools)

    result = whole(make, HARMONY)
    assert (result.text, result.reasoning, len(result.calls)) == (text, reasoning, calls)
    for end in range(len(HARMONY)):
        same_by_character(make, HARMONY[:end])


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<|channel|>final<|message|>Hi <b<|return|>", "Hi <b"),
        ("<|channel|>final<|message|>Hi", "Hi"),
        ('{"a": 1}', '{"a": 1}'),
        ("Hi<|channel|>final<|message|> there", "Hi there"),
        ("", ""),
    ],
)
def test_harmony_answers(text: str, answer: str) -> None:
    assert whole(HarmonyParser, text).text == answer
    same_at_every_cut(HarmonyParser, text)


@pytest.mark.parametrize(
    ("name", "kwargs", "on"),
    [
        ("deepseek-r1", {"thinking": False}, True),
        ("deepseek-v3", {}, False),
        ("deepseek-v3", {"thinking": True}, True),
        ("qwen3", {}, True),
        ("qwen3", {"enable_thinking": False}, False),
        ("mistral", {}, False),
        ("mistral", {"reasoning_effort": "high"}, True),
        ("mistral", {"reasoning_effort": "none"}, False),
        ("minimax-m3", {"thinking_mode": "enabled"}, True),
        ("minimax-m3", {"thinking_mode": "disabled"}, False),
    ],
)
def test_whether_a_request_thinks(name: str, kwargs: dict[str, Any], on: bool) -> None:
    assert FORMATS[name].is_on(kwargs) is on


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{% if enable_thinking %}<think>", "qwen3"),
        ("assistant\n<think>\n", "qwen3-thinking"),
        ("<｜Assistant｜><think>\n", "deepseek-r1"),
        ("{% if thinking %}<｜Assistant｜><think>", "deepseek-v3"),
        ("◁think▷", "kimi"),
        ("<|channel|>analysis", "gpt-oss"),
        ("plain", None),
    ],
)
def test_format_from_the_template(template: str, name: str | None) -> None:
    assert detect_reasoning(template) == name


def test_events_are_plain_values() -> None:
    events: list[ParserEvent] = ReasoningParser(FORMATS["kimi"]).push("◁think▷x◁/think▷y")
    assert events == [ReasoningDelta("x"), TextDelta("y")]
