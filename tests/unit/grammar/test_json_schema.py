"""Schemas: what is refused, with which words, and which library keeps all rules of one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sglang.grammar.json_schema import read_schema
from sglang.grammar.route import route
from sglang.grammar.spec import GrammarError, GrammarSpec


def refusal(text: str) -> str:
    with pytest.raises(GrammarError) as error:
        read_schema(text)
    assert error.value.field == "json_schema"
    return str(error.value)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "nonsense"}, ("#/type", "integer", "'nonsense'")),
        ({"properties": {"a": {"type": ["string", 1]}}}, ("#/properties/a/type",)),
        ({"items": 3}, ("#/items", "a schema is an object or a boolean", "3")),
        ({"anyOf": []}, ("#/anyOf", "at least one")),
        ({"anyOf": [{"enum": []}]}, ("#/anyOf/0/enum",)),
        ({"properties": []}, ("#/properties", "an object")),
        ({"required": "a"}, ("#/required", "names")),
        ({"minLength": -1}, ("#/minLength", "whole number")),
        ({"maxItems": 10**9}, ("#/maxItems", "1000000")),
        ({"maxLength": True}, ("#/maxLength",)),
        ({"minimum": "3"}, ("#/minimum", "a number")),
        ({"pattern": 3}, ("#/pattern", "regular expression")),
        ({"$ref": "http://example.com/x"}, ("#/$ref", "#/$defs/name")),
        ({"$ref": "#/$defs/a"}, ("#/$ref", "'$defs'")),
        ({"$ref": "#"}, ("circle",)),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, ("circle",)),
    ],
)
def test_a_wrong_schema_is_refused_with_the_place(schema: Any, words: tuple[str, ...]) -> None:
    message = refusal(json.dumps(schema))
    for word in words:
        assert word in message


@pytest.mark.parametrize("text", ["", "{", "[1", "nul", '{"a":NaN}', "3", '"a"', "null"])
def test_what_is_no_schema_at_all_is_refused(text: str) -> None:
    assert refusal(text).startswith("json_schema: ")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 5_000 + "1" + "}" * 5_000])
def test_deep_nesting_is_refused_before_it_is_parsed(text: str) -> None:
    assert "levels of nesting are too many" in refusal(text)


def test_brackets_in_strings_are_no_nesting() -> None:
    assert read_schema(json.dumps({"const": "[" * 1000 + '\\"['})).exact


def test_many_subschemas_are_refused() -> None:
    assert "subschemas" in refusal(json.dumps({"anyOf": [{}] * 10_000}))


KEPT_BY_XGRAMMAR: list[Any] = [
    True,
    {},
    {"type": "string"},
    {"type": ["string", "null"]},
    {"title": "t", "description": "d", "default": 1, "type": "integer"},
    {"enum": ["a", 1, None, True]},
    {"const": "a", "type": "string"},
    {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 3},
    {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False},
    {"properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}}},
]

NOT_KEPT_BY_XGRAMMAR: list[Any] = [
    False,
    {"type": "string", "pattern": "a"},
    {"type": "string", "minLength": 1},
    {"type": "string", "format": "date"},
    {"type": "integer", "minimum": 1},
    {"type": "number", "multipleOf": 2},
    {"type": "array", "uniqueItems": True},
    {"type": "array", "maxItems": 2.0},
    {"type": "object", "properties": {"a": {}}, "required": ["b"]},
    {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}},
    {"type": "object", "patternProperties": {"a": {}}},
    {"type": "string", "enum": ["a", 1]},
    {"enum": [1.5]},
    {"const": {"a": 1}},
    {"const": 1 << 60},
    {"type": "string", "anyOf": [{"type": "null"}]},
    {"oneOf": [{}, {}]},
    {"allOf": [{}]},
    {"not": {}},
    {"anyOf": [{"type": "integer"}, {"minimum": 3}]},
]


@pytest.mark.parametrize("schema", KEPT_BY_XGRAMMAR, ids=json.dumps)
def test_what_xgrammar_keeps_goes_to_it(schema: Any) -> None:
    spec = GrammarSpec("json_schema", json.dumps(schema))
    assert (route(spec, "xgrammar"), route(spec, "llguidance")) == ("xgrammar", "llguidance")


@pytest.mark.parametrize("schema", NOT_KEPT_BY_XGRAMMAR, ids=json.dumps)
def test_what_xgrammar_does_not_keep_goes_to_llguidance(schema: Any) -> None:
    assert route(GrammarSpec("json_schema", json.dumps(schema)), "xgrammar") == "llguidance"


def test_patterns_and_keywords_are_found_with_their_places() -> None:
    schema = {"properties": {"a": {"pattern": "x"}}, "patternProperties": {"y": {"not": {}}}}
    report = read_schema(json.dumps(schema))
    assert sorted(report.patterns) == [("#/patternProperties", "y"), ("#/properties/a/pattern", "x")]
    assert report.places["not"] == "#/patternProperties/y"
    assert report.combines


def test_references_may_be_written_with_escapes() -> None:
    schema = {"$ref": "#/$defs/a~1b%25~0", "$defs": {"a/b%~": {"type": "string"}}}
    assert read_schema(json.dumps(schema)).exact
