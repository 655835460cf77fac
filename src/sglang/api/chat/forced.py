"""Grammars that make a model call tools, or hold its calls to their schemas."""

from __future__ import annotations

import json
from typing import Any

from sglang.api.chat.call_grammar import CallGrammar, CallTarget, SpecialId
from sglang.api.chat.call_shapes import shape_of
from sglang.api.chat.constraint import Constraint
from sglang.api.chat.harmony_grammar import harmony_calls
from sglang.api.chat.request import ChatRequest
from sglang.api.chat.tagged_arguments import NotWritable
from sglang.api.chat.tools import parameters_of
from sglang.parsers.registry import GPT_OSS


class CallGrammars:
    """The grammars of one server: its tool-call format, its chat template and its special tokens."""

    def __init__(self, tool_format: str | None, template: str, special_id: SpecialId, strict_level: int = 0) -> None:
        shape = shape_of(tool_format, template)
        self._writer = CallGrammar(shape, special_id) if shape is not None else None
        self._forces = shape is not None and shape.tagged is None
        self._harmony = tool_format == GPT_OSS
        self._special_id = special_id
        self._all_strict = strict_level >= 1

    def forced(self, chat: ChatRequest) -> tuple[Constraint, bool]:
        """The grammar for tool_choice required or named, and whether it is written in the model's own format.

        Otherwise it is a JSON list of ``{"name", "parameters"}``, which keeps every rule of the schemas.
        """
        tools = [tool for tool in chat.tools if chat.tool_choice.name in (None, tool["function"]["name"])]
        several = chat.parallel_tool_calls and chat.tool_choice.mode == "required"
        if self._writer is not None and self._forces:
            return _structural_tag(self._writer.forced(_targets(tools, all_strict=True), several)), True
        return ("json_schema", json.dumps(_call_list(tools, several), ensure_ascii=False)), False

    def strict(self, chat: ChatRequest) -> Constraint | None:
        """The grammar for tool_choice auto where tools are strict, or all count as such; None otherwise, and where
        the format has none."""
        if not self._all_strict and not any(tool["function"].get("strict") for tool in chat.tools):
            return None
        targets = _targets(chat.tools, all_strict=self._all_strict)
        try:
            if self._harmony:
                return _structural_tag(harmony_calls(targets, self._special_id))
            if self._writer is not None:
                return _structural_tag(self._writer.triggered(targets, chat.parallel_tool_calls))
        except NotWritable:
            pass
        return None


def _structural_tag(tree: dict[str, Any]) -> Constraint:
    return "structural_tag", json.dumps({"type": "structural_tag", "format": tree}, ensure_ascii=False)


def _targets(tools: list[dict[str, Any]], all_strict: bool) -> list[CallTarget]:
    """Tools that are not strict may be called with any object."""
    return [
        CallTarget(
            tool["function"]["name"],
            _object(parameters_of(tool) if all_strict or tool["function"].get("strict") else {}),
        )
        for tool in _distinct(tools)
    ]


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
