"""Prepares a checked JSON schema for llguidance: white space, formats, closed objects."""

from __future__ import annotations

from typing import Any

from sglang.grammar.json_schema import ANNOTATIONS, SchemaReport
from sglang.grammar.spec import GrammarOptions

FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri", "unknown"}
)
"""Formats that llguidance keeps; it refuses others, which by the standard are notes only."""


def schema_for_llguidance(report: SchemaReport, options: GrammarOptions) -> Any:
    """The schema with its spacing rule; unknown formats are dropped, and objects that list their properties take no
    others unless they say so (as xgrammar has it, or a model goes on inventing keys)."""
    root = _prepared(report.root, close=not report.combines)
    if root is True:
        root = {}
    if isinstance(root, dict):
        root = {**root, "x-guidance": _spacing(options)}
    return root


def _spacing(options: GrammarOptions) -> dict[str, Any]:
    if not options.any_whitespace:
        return {"whitespace_flexible": False}
    pattern = options.whitespace_pattern or rf"[ \n\r\t]{{1,{options.max_whitespace}}}"
    return {"whitespace_pattern": pattern}


def _prepared(node: Any, *, close: bool, in_map: bool = False) -> Any:
    if isinstance(node, list):
        return [_prepared(item, close=close) for item in node]
    if not isinstance(node, dict):
        return node
    if in_map:  # names of properties, not keywords
        return {name: _prepared(child, close=close) for name, child in node.items()}
    result = {}
    for name, child in node.items():
        if name in ("enum", "const", "required") or name in ANNOTATIONS:
            if name not in ANNOTATIONS:
                result[name] = child
        elif name == "format" and child not in FORMATS:
            continue
        else:
            is_map = name in ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
            result[name] = _prepared(child, close=close, in_map=is_map)
    if close and "properties" in node and not {"additionalProperties", "patternProperties"} & node.keys():
        result["additionalProperties"] = False
    return result
