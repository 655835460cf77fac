"""Grammars that hold calls to their schemas: right calls pass in each format's own writing, wrong ones do not."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from sglang.api.chat.call_shapes import SHAPES, shape_of
from sglang.api.chat.forced import CallGrammars
from sglang.api.chat.request import ChatRequest, ToolChoice
from sglang.grammar.backend import Backend, Matcher
from sglang.grammar.libraries import make_backend
from sglang.grammar.spec import GrammarOptions, GrammarSpec
from sglang.grammar.vocabulary import Vocabulary, mask_words
from sglang.parsers.registry import make_tool_parser, parse_whole
from sglang.parsers.tools.writer import ToolSpecs
from unit.parsers.formats import RENDERS, Call

SPECIALS = [
    "<eos>", "<|channel|>", "<|message|>", "<|start|>", "<|constrain|>", "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>",
    "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>",
    "[TOOL_CALLS]", "[ARGS]", "<|action_start|>", "<|action_end|>", "<|plugin|>", "<|START_ACTION|>", "<|END_ACTION|>",
    "<tool_sep>", "<｜tool_call_begin｜>", "<｜tool_call_end｜>", "<｜tool_sep｜>", "<｜tool_calls_begin｜>",
    "<｜tool_calls_end｜>",
]  # fmt: skip
IDS = {text: 256 + at for at, text in enumerate(SPECIALS)}
_SPLIT = re.compile("(" + "|".join(map(re.escape, SPECIALS)) + ")")

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "s": {"type": "string"},
        "n": {"type": "integer"},
        "color": {"enum": ["red", "green"]},
        "point": {"$ref": "#/$defs/point"},
    },
    "required": ["s", "n"],
    "additionalProperties": False,
    "$defs": {
        "point": {
            "type": "object",
            "properties": {"x": {"type": "integer"}},
            "required": ["x"],
            "additionalProperties": False,
        }
    },
}
GOOD: list[Call] = [("f", {"s": 'é"}<b>', "n": 12, "color": "red", "point": {"x": 1}}), ("f", {"s": "", "n": -1})]
WRONG: list[Call] = [
    ("f", {"s": "x", "n": "many"}),
    ("f", {"s": "x"}),
    ("f", {"s": "x", "n": 1, "color": "blue"}),
    ("f", {"s": "x", "n": 1, "point": {"y": 1}}),
    ("f", {"s": "x", "n": 1, "more": 1}),
    ("nope", {"s": "x", "n": 1}),
]
CASES = [case for case in RENDERS if RENDERS[case][0] in (*SHAPES, "gpt-oss")]
CASES = [case for case in CASES if case not in ("hunyuan_json", "llama3")]  # other ways to write the same format
TEMPLATES = {"mistral_args": "[ARGS]"}


def tools(strict: bool = True) -> list[dict[str, Any]]:
    loose = {"type": "function", "function": {"name": "g", "parameters": PARAMETERS}}
    return [{"type": "function", "function": {"name": "f", "parameters": PARAMETERS, "strict": strict}}, loose]


@pytest.fixture(scope="module")
def backends() -> dict[str, Backend]:
    tokens = [*(bytes([byte]) for byte in range(256)), *[b""] * len(SPECIALS)]
    vocabulary = Vocabulary(tokens=tokens, special_ids=list(IDS.values()), eos_ids=[IDS["<eos>"]])
    return {name: make_backend(name, vocabulary, GrammarOptions()) for name in ("xgrammar", "llguidance")}


def grammars(case: str, special: bool = True) -> CallGrammars:
    return CallGrammars(RENDERS[case][0], TEMPLATES.get(case, ""), IDS.get if special else lambda text: None)


def strict_matcher(backend: Backend, case: str, special: bool = True, **more: Any) -> Matcher:
    constraint = grammars(case, special).strict(ChatRequest([], tools(), **more))
    assert constraint is not None
    return backend.compile(GrammarSpec(*constraint)).matcher()


def ids_of(text: str, special: bool) -> list[int]:
    parts = _SPLIT.split(text) if special else [text]
    return [number for part in parts for number in ([IDS[part]] if part in IDS and special else part.encode())]


def follow(matcher: Matcher, text: str, special: bool = True) -> str | None:
    """The text that is left where the grammar refuses; None where it takes all of it."""
    mask = np.zeros(mask_words(256 + len(SPECIALS)), np.int32)
    ids = ids_of(text, special)
    for at, token in enumerate(ids):
        matcher.fill(mask)
        if not mask[token >> 5] >> (token & 31) & 1:
            return repr(ids[at:])
        assert matcher.accept(token)
    return None


def may_end(matcher: Matcher) -> bool:
    mask = np.zeros(mask_words(256 + len(SPECIALS)), np.int32)
    matcher.fill(mask)
    return bool(mask[8] & 1)


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("library", ["xgrammar", "llguidance"])
@pytest.mark.parametrize("case", CASES)
def test_strict_tools(backends: dict[str, Backend], library: str, case: str, special: bool) -> None:
    if case == "gpt-oss" and not special:
        assert grammars(case, special).strict(ChatRequest([], tools())) is None
        return
    write = RENDERS[case][1]
    lead = "" if case == "gpt-oss" else 'Let me <see> {"a": [1]}.\n'
    matcher = strict_matcher(backends[library], case, special)
    assert follow(matcher, lead + write(GOOD), special) is None
    assert may_end(matcher)
    for wrong in WRONG:
        if case == "llama3_bare" and wrong[0] == "nope":
            continue  # may be an answer
        assert follow(strict_matcher(backends[library], case, special), lead + write([wrong]), special), wrong


@pytest.mark.parametrize("case", CASES)
def test_tools_that_are_not_strict_take_any_arguments(backends: dict[str, Backend], case: str) -> None:
    text = RENDERS[case][1]([("g", {"anything": [1, {"k": "x"}]})])
    assert follow(strict_matcher(backends["xgrammar"], case), text) is None
    assert grammars(case).strict(ChatRequest([], tools(strict=False))) is None


@pytest.mark.parametrize("library", ["xgrammar", "llguidance"])
@pytest.mark.parametrize("case", [case for case in CASES if case != "gpt-oss"])
def test_one_call_where_calls_are_not_parallel(backends: dict[str, Backend], library: str, case: str) -> None:
    write = RENDERS[case][1]
    matcher = strict_matcher(backends[library], case, parallel_tool_calls=False)
    assert follow(matcher, write(GOOD[:1])) is None
    assert follow(strict_matcher(backends[library], case, parallel_tool_calls=False), write(GOOD))


@pytest.mark.parametrize("library", ["xgrammar", "llguidance"])
@pytest.mark.parametrize("case", [case for case in CASES if case != "gpt-oss"])
def test_forced_calls(backends: dict[str, Backend], library: str, case: str) -> None:
    """In the format's own writing where that keeps every rule; the parser reads them back."""
    parser, write = RENDERS[case]
    shape = shape_of(parser, TEMPLATES.get(case, ""))
    chat = ChatRequest([], tools(), tool_choice=ToolChoice("required"))
    constraint, native = grammars(case).forced(chat)
    assert shape is not None
    assert native is (shape.tagged is None)
    if not native:
        assert constraint[0] == "json_schema"
        return
    matcher = backends[library].compile(GrammarSpec(*constraint)).matcher()
    assert follow(matcher, write(GOOD)) is None
    assert may_end(matcher)
    assert follow(backends[library].compile(GrammarSpec(*constraint)).matcher(), "Hi")
    specs = ToolSpecs.of(tools())
    assert [name for name, _ in parse_whole(make_tool_parser(parser, specs), write(GOOD))[1]] == ["f", "f"]


def test_a_gpt_oss_answer_without_calls(backends: dict[str, Backend]) -> None:
    text = "<|channel|>analysis<|message|>Hm {<|start|>assistant<|channel|>final<|message|>Hi <b>"
    matcher = strict_matcher(backends["xgrammar"], "gpt-oss")
    assert follow(matcher, text) is None
    assert may_end(matcher)
    built_in = "<|start|>assistant<|channel|>commentary to=python<|message|>"
    assert follow(strict_matcher(backends["xgrammar"], "gpt-oss"), built_in)
