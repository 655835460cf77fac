"""Grammars of arguments that stand in tags one by one, as plain text or JSON."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sglang.api.chat.call_shapes import Tagged
from sglang.parsers.tools.xml_values import schema_types

Node = dict[str, Any]
Pieces = Callable[[str], list[Node]]
"""From a text to constants and special tokens."""

_ELSEWHERE = frozenset({"$ref", "anyOf", "oneOf", "allOf", "not", "if", "patternProperties"})
"""Keywords that say more of an object than a list of properties does."""
_DEFINITIONS = ("$defs", "definitions")


def is_listed(schema: dict[str, Any]) -> bool:
    """Whether the properties of an object are a plain list, so that they can be written one after the other."""
    if _ELSEWHERE & schema.keys() or schema.get("type", "object") != "object":
        return False
    known = schema.get("properties", {})
    closed = "properties" in schema or schema.get("additionalProperties") is False
    return isinstance(known, dict) and closed and set(schema.get("required", ())) <= set(known)


class NotWritable(Exception):
    """The grammar can't be written with the special tokens of this vocabulary."""


def tagged_arguments(tags: Tagged, schema: dict[str, Any], pieces: Pieces) -> list[Node]:
    """The arguments of a schema that :func:`is_listed`, in its order.

    Choices and JSON values are held to their schemas. Free text is free: its length and pattern are not.
    """
    required = set(schema.get("required", ()))
    nodes: list[Node] = []
    for key, value in schema.get("properties", {}).items():
        end = pieces(tags.end)
        options = []
        for is_text, content in _contents(value, schema)[: None if "{is_text}" in tags.begin else 1]:
            begin = tags.begin.replace("{key}", key).replace("{is_text}", "true" if is_text else "false")
            options.append(sequence([*pieces(begin), *(free_text(end) if content is None else [content, *end])]))
        node = _either(options)
        nodes.append(node if key in required else {"type": "optional", "content": node})
    return nodes


def free_text(end: list[Node]) -> list[Node]:
    """Any text and the pieces that end it."""
    first = end[0]
    if first["type"] == "const_string" and ">" not in first["value"]:
        raise NotWritable  # half a marker would end the text
    ends = first["value"] if first["type"] == "const_string" else first
    return [{"type": "tag", "begin": "", "content": {"type": "any_text"}, "end": ends}, *end[1:]]


def sequence(nodes: list[Node]) -> Node:
    """One node of several."""
    return nodes[0] if len(nodes) == 1 else {"type": "sequence", "elements": nodes}


def _contents(schema: Any, root: dict[str, Any]) -> list[tuple[bool, Node | None]]:
    """(is it text, the value's grammar or None for free text): the ways to write a value."""
    types = schema_types(schema, root)
    if types and "string" not in types:
        return [(False, _json(schema, root))]
    if choices := _choices(schema):
        return [(True, _either([{"type": "const_string", "value": choice} for choice in choices]))]
    return [(True, None)] if types == {"string"} else [(True, None), (False, _json(schema, root))]


def _json(schema: Any, root: dict[str, Any]) -> Node:
    """The schema with the definitions that it may refer to."""
    definitions = {name: root[name] for name in _DEFINITIONS if name in root}
    return {"type": "json_schema", "json_schema": {**definitions, **schema} if isinstance(schema, dict) else schema}


def _choices(schema: Any) -> list[str]:
    """The texts that a schema allows, where they are all that it allows and can't be taken for tags."""
    if not isinstance(schema, dict):
        return []
    values = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else []
    good = all(isinstance(value, str) and value and not re.search(r"[<>\n]", value) for value in values)
    return values if good else []


def _either(nodes: list[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else {"type": "or", "elements": nodes}
