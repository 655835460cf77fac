"""Calls whose arguments stand in tags, one by one, as plain text that the tool's schema gives types."""

from __future__ import annotations

import json
import math
from typing import Any

from sglang.parsers.json_text import json_chars
from sglang.parsers.python_text import python_value
from sglang.parsers.source import Reader, Source, until
from sglang.parsers.tools.writer import CallWriter

MAX_REF_STEPS = 8


class TagArguments:
    """Writes the arguments object of one call while its values come in."""

    def __init__(self, out: CallWriter, tool: str) -> None:
        self._out = out
        self._schema = out.tools.parameters.get(tool, {})
        self._started = False

    def value(self, src: Source, key: str, end: str, trim: bool, is_text: bool | None = None) -> Reader[bool]:
        """Read the value up to its end tag. ``trim``: one line break on either side belongs to the tags.

        ``is_text`` overrides what the schema says. Text is passed on while it comes, everything else when it is
        whole. False where the end is missing.
        """
        self._out.arguments(f"{', ' if self._started else '{'}{json.dumps(key, ensure_ascii=False)}: ")
        self._started = True
        types = self._types(key) if is_text is None else ({"string"} if is_text else set())
        if types == {"string"}:
            return (yield from self._text(src, end, trim))
        parts: list[str] = []
        if (yield from until(src, (end,), parts.append)) is None:
            return False
        raw = "".join(parts)
        if trim:
            raw = raw.removeprefix("\n").removesuffix("\n")
        self._out.arguments(convert(raw, types))
        return True

    def close(self) -> None:
        self._out.arguments("}" if self._started else "{}")

    def _text(self, src: Source, end: str, trim: bool) -> Reader[bool]:
        held = ""
        first = True

        def emit(text: str) -> None:
            nonlocal held, first
            if trim:
                if first:
                    text = text.removeprefix("\n")
                text = held + text
                held = "\n" if text.endswith("\n") else ""
                text = text.removesuffix("\n")
            first = False
            self._out.arguments(json_chars(text))

        self._out.arguments('"')
        if (yield from until(src, (end,), emit)) is None:
            return False
        self._out.arguments('"')
        return True

    def _types(self, key: str) -> set[str]:
        properties = self._schema.get("properties")
        declared = properties.get(key) if isinstance(properties, dict) else None
        return schema_types(declared, self._schema)


def schema_types(schema: Any, root: dict[str, Any], steps: int = 0) -> set[str]:
    """JSON types that a schema allows; empty where it does not say."""
    if not isinstance(schema, dict) or steps > MAX_REF_STEPS:
        return set()
    if isinstance(reference := schema.get("$ref"), str):
        return schema_types(_resolve(reference, root), root, steps + 1)
    declared = schema.get("type")
    if isinstance(declared, str):
        return {declared}
    if isinstance(declared, list):
        return {item for item in declared if isinstance(item, str)}
    for key in ("anyOf", "oneOf"):
        if isinstance(branches := schema.get(key), list):
            found = [schema_types(branch, root, steps + 1) for branch in branches]
            return set().union(*found) if all(found) else set()
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    return {_json_type(value) for value in values} if isinstance(values, list) else set()


def _resolve(reference: str, root: dict[str, Any]) -> Any:
    node: Any = root
    for part in reference.removeprefix("#/").split("/"):
        node = node.get(part) if isinstance(node, dict) else None
    return node


def _json_type(value: Any) -> str:
    names = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    return names.get(type(value), "null")


def convert(raw: str, types: set[str]) -> str:
    """JSON text of a value that was written as plain text. What fits none of the types stays text."""
    text = raw.strip()
    value = _parsed(text)
    if isinstance(value, str):
        # A quoted text where no text was declared: the quotes were JSON's.
        return json.dumps(value if "string" not in types and text[:1] == '"' else raw, ensure_ascii=False)
    kind = _json_type(value)
    if types and kind not in types and not (kind == "integer" and "number" in types):
        if kind == "number" and "integer" in types and value == int(value):
            return str(int(value))
        return json.dumps(raw, ensure_ascii=False)
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return json.dumps(raw, ensure_ascii=False)


_CONSTANTS = {"true": True, "false": False, "null": None, "none": None}


def _parsed(text: str) -> Any:
    """The value that a text stands for in JSON, or else in Python; the text itself where it is neither."""
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return _python(text) if text[:1] in ("[", "{", "(") else text
    return text if isinstance(value, float) and not math.isfinite(value) else value


def _python(text: str) -> Any:
    source = Source(text, closed=True)
    parts: list[str] = []
    reader = python_value(source, parts.append)
    try:
        next(reader)
    except StopIteration as end:
        if end.value and not source.text:
            return json.loads("".join(parts))
    return text


def _no_constant(name: str) -> Any:
    raise ValueError(name)
