"""The promise: whatever ends under a schema validates; a schema whose rules nobody keeps is refused."""

from __future__ import annotations

import json
import random
from typing import Any

import hypothesis.strategies as st
import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings

from sglang.grammar.backend import Backend, Compiled
from sglang.grammar.route import route
from sglang.grammar.spec import GrammarError, GrammarSpec
from sglang.grammar.vocabulary import Vocabulary
from unit.grammar.walks import takes, walk

KINDS = {
    "nested": {
        "type": "object",
        "properties": {"a": {"type": "object", "properties": {"b": {"type": "array", "items": {"type": "boolean"}}}}},
        "required": ["a"],
    },
    "recursive": {
        "$ref": "#/$defs/n",
        "$defs": {
            "n": {
                "type": "object",
                "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/n"}]}},
                "required": ["v", "next"],
            }
        },
    },
    "strange names": {
        "type": "object",
        "properties": {'ключ"\\é': {"type": "boolean"}, "\u2028\n": {"const": 'é"\n\u0001'}},
        "required": ['ключ"\\é', "\u2028\n"],
    },
    "union": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#"}}]},
    "enum": {"enum": ['a"b', 1, None, True, "é\n", {"x": [1, 2]}, 1.5]},
    "typed enum": {"type": "string", "enum": ["a", 1]},
    "version": {
        "type": "object",
        "properties": {"v": {"type": "string", "pattern": "^\\d+\\.\\d+(-[\\w.]+)?$"}},
        "required": ["v"],
    },
    "unanchored": {"type": "string", "pattern": "\\S"},
    "half anchored": {"type": "string", "pattern": "^a|b$"},
    "quotes": {"type": "string", "pattern": '^"+\\\\$'},
    "cyrillic": {"type": "string", "pattern": "^[а-яё]{5}$"},
    "arabic digits": {"type": "string", "pattern": "^[٠-٩]{4}$"},
    "hiragana": {"type": "string", "pattern": "^[\u3040-\u309f]{3}$"},
    "short": {"type": "string", "minLength": 2, "maxLength": 5},
    "pattern and length": {"type": "string", "pattern": "^(ab)*$", "minLength": 3, "maxLength": 6},
    "integers": {"type": "integer", "minimum": -5, "exclusiveMaximum": 137},
    "numbers": {"type": "number", "exclusiveMinimum": 0.5, "maximum": 2.25},
    "sevens": {"type": "integer", "multipleOf": 7},
    "tuple": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "null"}], "items": False, "minItems": 2},
    "both": {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"properties": {"b": {"type": "null"}}, "required": ["b"]},
        ]
    },
    "one of": {"oneOf": [{"type": "integer"}, {"type": "boolean"}]},
    "tagged": {
        "oneOf": [
            {"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind"]},
            {"type": "object", "properties": {"kind": {"const": "b"}, "y": {"type": "null"}}, "required": ["kind"]},
        ]
    },
    "more properties": {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "additionalProperties": {"type": "boolean"},
    },
    "named by pattern": {"type": "object", "patternProperties": {"^x": {"type": "integer"}}, "minProperties": 1},
    "names": {"type": "object", "propertyNames": {"pattern": "^a.$"}, "additionalProperties": {"type": "null"}},
    "required only": {"required": ["name"], "properties": {"kind": {"type": "null"}}, "type": "object"},
    "date": {"type": "string", "format": "date"},
    "unknown format": {"type": "string", "format": "my-own", "maxLength": 3},
    "sibling of a reference": {"$ref": "#/$defs/s", "maxLength": 2, "$defs": {"s": {"type": "string"}}},
}


def compile_schema(schema: Any, backends: dict[str, Backend], preferred: str = "xgrammar") -> Compiled:
    spec = GrammarSpec("json_schema", json.dumps(schema))
    return backends[route(spec, preferred)].compile(spec)


def check(schema: Any, compiled: Compiled, vocabulary: Vocabulary, seed: int) -> bool:
    output = walk(compiled, vocabulary, random.Random(seed))
    if output is None:
        return False
    jsonschema.Draft202012Validator(schema).validate(json.loads(output))
    return True


@pytest.mark.parametrize("preferred", ["xgrammar", "llguidance"])
@pytest.mark.parametrize("name", KINDS)
def test_outputs_validate(name: str, preferred: str, backends: dict[str, Backend], vocabulary: Vocabulary) -> None:
    compiled = compile_schema(KINDS[name], backends, preferred)
    ended = [check(KINDS[name], compiled, vocabulary, seed) for seed in range(12)]
    assert any(ended) or name == "half anchored"


def bounded(kind: str, low_name: str, high_name: str, lows: st.SearchStrategy[int]) -> st.SearchStrategy[Any]:
    return st.builds(lambda low, more: {"type": kind, low_name: low, high_name: low + more}, lows, st.integers(0, 300))


PATTERNS = ("^a+$", "b", "^[é-ü]{1,2}$", "^\\w\\d$")
VALUES = ["a", 'q"', 1, -2, None, True]
LEAVES = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "number", "boolean", "null"])}),
    st.builds(lambda values: {"enum": values}, st.lists(st.sampled_from(VALUES), min_size=1)),
    bounded("integer", "minimum", "maximum", st.integers(-99, 99)),
    bounded("string", "minLength", "maxLength", st.integers(0, 3)),
    st.sampled_from([{"type": "string", "pattern": pattern} for pattern in PATTERNS]),
)


def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.sampled_from(["a", "b", "ключ", 'd"', "e\\"])
    objects = st.builds(
        lambda properties, needed, closed: {
            "type": "object",
            "properties": properties,
            "required": [name for name, keep in zip(properties, needed, strict=False) if keep],
            **closed,
        },
        st.dictionaries(names, inner, max_size=3),
        st.lists(st.booleans(), min_size=3, max_size=3),
        st.sampled_from([{}, {"additionalProperties": False}, {"additionalProperties": {"type": "null"}}]),
    )
    arrays = st.builds(
        lambda items, low, more: {"type": "array", "items": items, "minItems": low, "maxItems": low + more},
        inner,
        st.integers(0, 2),
        st.integers(0, 2),
    )
    unions = st.builds(lambda members: {"anyOf": members}, st.lists(inner, min_size=1, max_size=3))
    return st.one_of(objects, arrays, unions)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(schema=st.recursive(LEAVES, grow, max_leaves=6), seed=st.integers(0, 1000))
def test_outputs_of_any_schema_validate(
    schema: Any, seed: int, backends: dict[str, Backend], vocabulary: Vocabulary
) -> None:
    check(schema, compile_schema(schema, backends), vocabulary, seed)


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"properties": {"a": {"not": {"type": "string"}}}}, "#/properties/a: the keyword not"),
        ({"if": {"type": "string"}, "then": {"minLength": 3}}, "keyword"),
        ({"contains": {"type": "string"}}, "contains"),
        ({"type": "object", "dependentRequired": {"a": ["b"]}}, "dependentRequired"),
        ({"oneOf": [{"type": "string"}, {"type": "string", "maxLength": 3}]}, "overlap"),
        ({"type": "string", "pattern": "^(unclosed$"}, "#/pattern: the pattern"),
        ({"properties": {"v": {"pattern": "(?=a)b"}}}, "#/properties/v/pattern"),
        ({"type": "string", "pattern": "(a)\\1"}, "#/pattern"),
        (False, "false"),
    ],
    ids=str,
)
def test_rules_that_nobody_keeps_are_refused(schema: Any, word: str, backends: dict[str, Backend]) -> None:
    with pytest.raises(GrammarError) as error:
        compile_schema(schema, backends)
    assert word in str(error.value)
    assert error.value.field == "json_schema"
    assert ("the keyword" in str(error.value)) is ("leave it out (accepted: type, enum," in str(error.value))


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ({"properties": {"l": {"uniqueItems": True}}}, "json_schema/properties/l: the keyword uniqueItems"),
        ({"type": "string", "pattern": "^(unclosed$"}, "json_schema/pattern: the pattern"),
        ({"oneOf": [{"type": "string"}, {"type": "string", "maxLength": 3}]}, "json_schema/oneOf: the alternatives"),
    ],
    ids=str,
)
def test_refused_rules_inside_structural_tags_are_named_too(
    schema: Any, word: str, backends: dict[str, Backend]
) -> None:
    content = {"type": "json_schema", "json_schema": schema}
    tree = {"format": {"type": "tag", "begin": "<a>", "content": content, "end": "</a>"}}
    with pytest.raises(GrammarError, match=f"^structural_tag: at format/content/{word}"):
        backends["llguidance"].compile(GrammarSpec("structural_tag", json.dumps(tree)))


def test_white_space_in_a_row_is_limited(backends: dict[str, Backend], vocabulary: Vocabulary) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    for name, backend in backends.items():
        compiled = backend.compile(GrammarSpec("json_schema", json.dumps(schema)))
        assert takes(compiled, '{%s"a"%s:%s1%s}' % ((" \n" * 8,) * 4), vocabulary), name
        assert not takes(compiled, '{%s"a":1}' % (" " * 17), vocabulary), name
        assert not takes(compiled, '{"a":1}' + " " * 20, vocabulary), name
