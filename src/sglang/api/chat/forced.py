"""Grammars that make a model call tools, or hold its calls to their schemas."""

from __future__ import annotations

import json
from typing import Any

from sglang.api.chat.constraint import Constraint
from sglang.api.chat.request import ChatRequest
from sglang.api.chat.tools import parameters_of

NATIVE_TAGS = {
    "qwen": ("<tool_call>\n", "\n</tool_call>", "\n"),
    "qwen25": ("<tool_call>\n", "\n</tool_call>", "\n"),
    "trinity": ("<tool_call>\n", "\n</tool_call>", "\n"),
    "hermes": ("<tool_call>", "</tool_call>", ""),
}
"""Format → (before a call, behind it, between two). Only formats whose markers are plain text for a grammar:
special tokens are never part of one."""

TRIGGER = "<tool_call>"


def forced_calls(chat: ChatRequest, tool_format: str | None) -> tuple[Constraint, bool]:
    """The grammar for tool_choice required or named, and whether it is written in the model's own format.

    Otherwise it is a JSON list of ``{"name", "parameters"}``.
    """
    tools = [tool for tool in chat.tools if chat.tool_choice.name in (None, tool["function"]["name"])]
    several = chat.parallel_tool_calls and chat.tool_choice.mode == "required"
    if tool_format in NATIVE_TAGS:
        tree = {
            "type": "tags_with_separator",
            "tags": _tags(tools, tool_format, all_strict=True),
            "separator": NATIVE_TAGS[tool_format][2],
            "at_least_one": True,
            "stop_after_first": not several,
        }
        return _structural_tag(tree), True
    return ("json_schema", json.dumps(_call_list(tools, several), ensure_ascii=False)), False


def strict_calls(chat: ChatRequest, tool_format: str | None, level: int) -> Constraint | None:
    """The grammar for tool_choice auto where tools are strict (or ``level`` makes all of them so); None otherwise."""
    strict = level >= 1 or any(tool["function"].get("strict") for tool in chat.tools)
    if not strict or tool_format not in NATIVE_TAGS:
        return None
    tree = {
        "type": "triggered_tags",
        "triggers": [TRIGGER],
        "tags": _tags(chat.tools, tool_format, all_strict=level >= 1),
        "at_least_one": False,
        "stop_after_first": not chat.parallel_tool_calls,
    }
    return _structural_tag(tree)


def _structural_tag(tree: dict[str, Any]) -> Constraint:
    return "structural_tag", json.dumps({"type": "structural_tag", "format": tree}, ensure_ascii=False)


def _tags(tools: list[dict[str, Any]], tool_format: str, all_strict: bool) -> list[dict[str, Any]]:
    before, behind, _ = NATIVE_TAGS[tool_format]
    tags = []
    for tool in _distinct(tools):
        function = tool["function"]
        schema = parameters_of(tool) if all_strict or function.get("strict") else {"type": "object"}
        tags.append(
            {
                "type": "tag",
                "begin": f'{before}{{"name": {json.dumps(function["name"], ensure_ascii=False)}, "arguments": ',
                "content": {"type": "json_schema", "json_schema": _object(schema)},
                "end": "}" + behind,
            }
        )
    return tags


def _distinct(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One tool a name; the first wins."""
    return list({tool["function"]["name"]: tool for tool in reversed(tools)}.values())[::-1]


def _object(schema: dict[str, Any]) -> dict[str, Any]:
    """Arguments are an object, also where the schema does not say so."""
    return schema if {"type", "$ref", "anyOf", "oneOf", "allOf"} & schema.keys() else {"type": "object", **schema}


def _call_list(tools: list[dict[str, Any]], several: bool) -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    items = []
    for index, tool in enumerate(_distinct(tools)):
        schema = _object(parameters_of(tool))
        if '"$ref"' in json.dumps(schema):
            # References count from the root, which is now further out.
            definitions[f"tool_{index}"] = _moved(schema, f"#/$defs/tool_{index}")
            schema = {"$ref": f"#/$defs/tool_{index}"}
        items.append(
            {
                "type": "object",
                "properties": {"name": {"const": tool["function"]["name"]}, "parameters": schema},
                "required": ["name", "parameters"],
                "additionalProperties": False,
            }
        )
    calls: dict[str, Any] = {"type": "array", "items": items[0] if len(items) == 1 else {"anyOf": items}, "minItems": 1}
    if not several:
        calls["maxItems"] = 1
    if definitions:
        calls["$defs"] = definitions
    return calls


def _moved(node: Any, root: str) -> Any:
    if isinstance(node, list):
        return [_moved(item, root) for item in node]
    if not isinstance(node, dict):
        return node
    moved = {key: _moved(value, root) for key, value in node.items()}
    reference = moved.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        moved["$ref"] = root + reference[1:]
    return moved
