"""Every kind of grammar through both libraries."""

from __future__ import annotations

import json
import random

import pytest

from sglang.grammar.backend import Backend
from sglang.grammar.libraries import make_backend
from sglang.grammar.route import route
from sglang.grammar.spec import ANY_JSON, GrammarError, GrammarOptions, GrammarSpec
from sglang.grammar.vocabulary import Vocabulary
from unit.grammar.conftest import EOS, OTHER_EOS
from unit.grammar.walks import allowed, takes, walk

LIBRARIES = ["xgrammar", "llguidance"]
TAG = {
    "structures": [
        {"begin": "<f>", "schema": {"type": "object", "properties": {"x": {"type": "integer"}}}, "end": "</f>"}
    ],
    "triggers": ["<f"],
}
SEQUENCE = {
    "format": {
        "type": "sequence",
        "elements": [
            {"type": "const_string", "value": "<t>"},
            {"type": "any_text"},
            {"type": "const_string", "value": "</t>"},
            {"type": "json_schema", "json_schema": {"type": "integer"}},
        ],
    }
}
CHOICES = ["yes", "no", "a.b|c", 'q"\\n\n', "é漢"]

TAKEN: list[tuple[str, str, list[str], list[str]]] = [
    ("regex", "(19|20)[0-9]{2}", ["1999", "2023"], ["199", "19999", "x1999", "2100", ""]),
    ("regex", "^a+$", ["a", "aaa"], ["", "b", "ab"]),
    ("regex", r"\d+-\w\s[^x]", ["12-a b", "1-_ é"], ["12-a x", "a-b c"]),
    ("regex", "(漢字|é){2}", ["漢字é", "éé"], ["é", "漢é"]),
    ("choice", json.dumps(CHOICES), CHOICES, ["ye", "yess", "axb|c", "q", ""]),
    ("ebnf", 'root ::= "yes" | "no"', ["yes", "no"], ["yesno", "maybe"]),
    ("ebnf", 'root ::= e\ne ::= "(" e ")" | [0-9]+', ["((12))", "0"], ["(1", "()", "1)"]),
    ("json_schema", ANY_JSON, ["1", '"a"', '{"a":[null,true]}', "[]"], ["{", "a", "1 2"]),
    ("json_schema", '{"type":"object"}', ["{}", '{"a":{"b":1}}'], ["1", "[]"]),
    ("structural_tag", json.dumps(TAG), ["hi", "a<f>{}</f>b", '<f>{"x":1}</f>'], ["<f>1</f>", '<f>{"x":"a"}</f>']),
    ("structural_tag", json.dumps(SEQUENCE), ["<t>a b</t>12", "<t></t>0"], ["<t>a</t>x", "12"]),
]  # fmt: skip


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("kind", "text", "right", "wrong"), TAKEN, ids=[f"{row[0]} {row[1][:20]}" for row in TAKEN])
def test_right_texts_are_taken_and_wrong_ones_are_not(
    library: str,
    kind: str,
    text: str,
    right: list[str],
    wrong: list[str],
    backends: dict[str, Backend],
    vocabulary: Vocabulary,
) -> None:
    compiled = backends[library].compile(GrammarSpec(kind, text))
    for output in right:
        # Where only one text is left, llguidance takes it in one way of writing it only: not byte by byte.
        assert takes(compiled, output, vocabulary) or library == "llguidance", output
    for output in wrong:
        assert not takes(compiled, output, vocabulary), output


@pytest.mark.parametrize("library", LIBRARIES)
def test_choices_come_out_whole(library: str, backends: dict[str, Backend], vocabulary: Vocabulary) -> None:
    compiled = backends[library].compile(GrammarSpec("choice", json.dumps(CHOICES)))
    seen = {walk(compiled, vocabulary, random.Random(seed)) for seed in range(60)}
    assert seen == {choice.encode() for choice in CHOICES}


@pytest.mark.parametrize("library", LIBRARIES)
def test_all_end_tokens_are_allowed_exactly_where_the_output_may_end(
    library: str, backends: dict[str, Backend], vocabulary: Vocabulary
) -> None:
    matcher = backends[library].compile(GrammarSpec("regex", "[ab]{1,2}")).matcher()
    token = vocabulary.tokens.index(b"a")
    assert not {EOS, OTHER_EOS} & set(allowed(matcher, vocabulary))
    assert matcher.accept(token)
    assert {EOS, OTHER_EOS} < set(allowed(matcher, vocabulary))
    assert matcher.accept(token)
    assert set(allowed(matcher, vocabulary)) == {EOS, OTHER_EOS}
    assert matcher.accept(OTHER_EOS)


@pytest.mark.parametrize("library", LIBRARIES)
def test_matchers_do_not_share_their_place(library: str, backends: dict[str, Backend], vocabulary: Vocabulary) -> None:
    compiled = backends[library].compile(GrammarSpec("regex", "[ab]c"))
    first, second = compiled.matcher(), compiled.matcher()
    assert first.accept(vocabulary.tokens.index(b"a"))
    assert allowed(first, vocabulary) == [vocabulary.tokens.index(b"c")]
    assert vocabulary.tokens.index(b"c") not in allowed(second, vocabulary)


WRONG = [
    ("regex", "((("),
    ("regex", "[z-a]"),
    ("ebnf", 'root ::= "'),
    ("ebnf", "root ::= missing"),
    ("structural_tag", json.dumps({"format": {"type": "grammar", "grammar": 'root ::= "'}})),
]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("kind", "text"), WRONG)
def test_wrong_texts_are_refused_with_their_kind(
    library: str, kind: str, text: str, backends: dict[str, Backend]
) -> None:
    with pytest.raises(GrammarError) as error:
        backends[library].compile(GrammarSpec(kind, text))
    assert error.value.field == kind
    assert str(error.value).startswith(f"{kind}: ")
    assert ".cc:" not in str(error.value), "the place in the library's source helps nobody"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("[]", ("JSON object",)),
        ({}, ("structures",)),
        ({"structures": [], "triggers": ["a"]}, ("structures",)),
        ({"structures": [{"begin": "<f>", "end": "x"}], "triggers": []}, ("triggers",)),
        ({"structures": [{"begin": "<f>", "end": "x"}], "triggers": ["<g"]}, ("structures/0", "triggers")),
        ({"structures": [{"begin": "<f>", "end": 3}], "triggers": ["<f"]}, ("structures/0",)),
        ({**TAG, "structures": [{**TAG["structures"][0], "schema": {"type": "x"}}]}, ("json_schema/type",)),  # type: ignore[dict-item]
        ({"format": {"type": "strange"}}, ("at format", "any_text")),
        ({"format": {"type": ["any_text"]}}, ("at format", "any_text")),
        ({"format": {"type": "sequence", "elements": [{"type": "json_schema"}]}}, ("format/elements/0", "json_schema")),
    ],
)  # fmt: skip
def test_wrong_structural_tags_are_refused_with_the_place(value: object, words: tuple[str, ...]) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    with pytest.raises(GrammarError) as error:
        route(GrammarSpec("structural_tag", text), "xgrammar")
    assert error.value.field == "structural_tag"
    for word in words:
        assert word in str(error.value)


def test_a_tag_with_rules_that_xgrammar_drops_goes_to_llguidance(
    backends: dict[str, Backend], vocabulary: Vocabulary
) -> None:
    structure = {"begin": "<f>", "schema": {"type": "integer", "minimum": 5, "maximum": 7}, "end": "</f>"}
    spec = GrammarSpec(
        "structural_tag", json.dumps({"structures": [structure], "triggers": ["<f"], "at_least_one": True})
    )
    assert route(spec, "xgrammar") == "llguidance"
    compiled = backends["llguidance"].compile(spec)
    assert not takes(compiled, "<f>4</f>", vocabulary)
    assert not takes(compiled, "text only", vocabulary)
    outputs = [walk(compiled, vocabulary, random.Random(seed), 60) for seed in range(20)]
    assert all(output is None or b"<f>" in output for output in outputs)


def test_compact_json_has_no_white_space(vocabulary: Vocabulary) -> None:
    spec = GrammarSpec("json_schema", '{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}')
    for library in LIBRARIES:
        compiled = make_backend(library, vocabulary, GrammarOptions(any_whitespace=False)).compile(spec)
        for seed in range(5):
            output = walk(compiled, vocabulary, random.Random(seed))
            assert output is None or not set(output) & set(b" \n\t\r")
