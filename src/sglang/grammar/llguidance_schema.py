"""Prepares a checked JSON schema for llguidance: white space, closed objects, and keywords written in another way."""

from __future__ import annotations

from typing import Any

from sglang.grammar.json_schema import ANNOTATIONS, SchemaReport
from sglang.grammar.spec import GrammarOptions

FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"})
"""Formats that llguidance keeps; it refuses others, which by the standard are notes only."""

_VALUES = ("enum", "const", "required")
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_NEEDS = {"then": "if", "else": "if", "minContains": "contains", "maxContains": "contains"}
"""Keyword → the one without which it says nothing."""

Node = dict[str, Any]


def schema_for_llguidance(report: SchemaReport, options: GrammarOptions) -> Any:
    """The schema with its spacing rule. Objects that list their properties take no others unless they say so: the
    other library has it so too, and a model left free goes on inventing properties."""
    root = _prepared(report.root, close=not report.combines)
    if root is True:
        root = {}
    if isinstance(root, dict):
        root = {**root, "x-guidance": _spacing(options)}
    return root


def _spacing(options: GrammarOptions) -> Node:
    if not options.any_whitespace:
        return {"whitespace_flexible": False}
    pattern = options.whitespace_pattern or rf"[ \n\r\t]{{1,{options.max_whitespace}}}"
    return {"whitespace_pattern": pattern}


def _prepared(node: Any, *, close: bool) -> Any:
    if isinstance(node, list):
        return [_prepared(item, close=close) for item in node]
    if not isinstance(node, dict):
        # 2.0 is a whole number to JSON schema
        return int(node) if isinstance(node, float) and node.is_integer() else node
    result: Node = {}
    for name, child in node.items():
        if name in _VALUES:
            result[name] = child
        elif name in _MAPS:
            result[name] = {key: _prepared(value, close=close) for key, value in child.items()}
        elif name not in ANNOTATIONS and not _says_nothing(name, child, node):
            result[name] = _prepared(child, close=close)
    _name_properties(result)
    if close and _lists_properties(result):
        result["additionalProperties"] = False
    return result


def _lists_properties(node: Node) -> bool:
    """Whether an object names all properties it needs, and says nothing of others."""
    if "properties" not in node or {"additionalProperties", "patternProperties"} & node.keys():
        return False
    return set(node.get("required", ())).issubset(node["properties"])


def _says_nothing(name: str, value: Any, node: Node) -> bool:
    if name == "format":
        return value not in FORMATS
    if name in _NEEDS:
        return _NEEDS[name] not in node
    return name == "uniqueItems" and value is False


def _name_properties(node: Node) -> None:
    """A rule for the names of free properties, where it stands alone, as a pattern or a list of them."""
    names = node.get("propertyNames")
    if not isinstance(names, dict) or {"properties", "patternProperties"} & node.keys():
        return
    value = node.get("additionalProperties", True)
    if names.keys() - {"type"} == {"pattern"}:
        node["patternProperties"] = {names["pattern"]: value}
    elif names.keys() - {"type"} == {"enum"} and all(isinstance(name, str) for name in names["enum"]):
        node["properties"] = dict.fromkeys(names["enum"], value)
    else:
        return
    node["additionalProperties"] = False
    del node["propertyNames"]
