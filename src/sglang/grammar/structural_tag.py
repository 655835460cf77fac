"""Structural tags: free text with parts that must match, such as tool calls.

Two forms are read: the older ``{"structures": [{begin, schema, end}], "triggers": […]}`` and the tree of formats
``{"format": {"type": …}}``. Both become a tree.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sglang.grammar.json_schema import SchemaReport, inspect_schema
from sglang.grammar.spec import GrammarError, parse_json

KIND = "structural_tag"
MAX_TAGS = 512

Node = dict[str, Any]

FORMATS = frozenset(
    {
        "const_string", "json_schema", "any_text", "token", "exclude_token", "any_tokens", "grammar", "regex",
        "sequence", "or", "tag", "triggered_tags", "token_triggered_tags", "tags_with_separator", "optional", "plus",
        "star", "repeat", "dispatch", "token_dispatch", "qwen_xml_parameter",
    }
)  # fmt: skip

TOKEN_FORMATS = frozenset({"token", "token_triggered_tags", "token_dispatch"})


@dataclass(slots=True)
class StructuralTag:
    """A checked structural tag."""

    format: Node
    exact: bool
    """Whether xgrammar keeps every rule of the schemas in it."""
    names_tokens: bool = False
    """Whether parts of it are tokens by number, which may be special ones."""
    reports: list[SchemaReport] = field(default_factory=list)
    """What is in its schemas."""

    def spaced(self, max_whitespace: int) -> str:
        """As JSON in the tree form, with a limit of white space in a row in every part that is JSON."""
        for _, node in _formats(self.format, "format"):
            if node["type"] == "json_schema" and node.get("style", "json") == "json":
                node.setdefault("max_whitespace_cnt", max_whitespace)
        return json.dumps({"type": KIND, "format": self.format}, ensure_ascii=False)


def read_structural_tag(text: str) -> StructuralTag:
    """Check a structural tag. Raises :class:`GrammarError` naming the place that is wrong."""
    value = parse_json(text, KIND)
    if not isinstance(value, dict):
        raise GrammarError(f'{KIND}: must be a JSON object with "format", or "structures" and "triggers"', KIND)
    tree = value["format"] if "format" in value else _from_structures(value)
    names_tokens = False
    reports: list[SchemaReport] = []
    for place, node in _formats(tree, "format"):
        names_tokens = names_tokens or node["type"] in TOKEN_FORMATS
        if node["type"] in ("json_schema", "qwen_xml_parameter"):
            if "json_schema" not in node:
                raise GrammarError(f"{KIND}: at {place}: json_schema is missing", KIND)
            reports.append(inspect_schema(node["json_schema"], KIND, f"{place}/json_schema"))
    return StructuralTag(tree, all(report.exact for report in reports), names_tokens, reports)


def _from_structures(value: Node) -> Node:
    structures, triggers = value.get("structures"), value.get("triggers")
    if not isinstance(structures, list) or not structures or len(structures) > MAX_TAGS:
        raise GrammarError(f'{KIND}: needs "format", or "structures" with 1 to {MAX_TAGS} entries', KIND)
    if not isinstance(triggers, list) or not triggers or not all(isinstance(item, str) and item for item in triggers):
        raise GrammarError(f"{KIND}: triggers must be a list of at least one text, none of them empty", KIND)
    tags = [_from_structure(item, index, triggers) for index, item in enumerate(structures)]
    at_least_one = value.get("at_least_one", False)
    if not isinstance(at_least_one, bool):
        raise GrammarError(f"{KIND}: at_least_one must be true or false", KIND)
    return {"type": "triggered_tags", "triggers": triggers, "tags": tags, "at_least_one": at_least_one}


def _from_structure(item: Any, index: int, triggers: list[str]) -> Node:
    place = f"structures/{index}"
    begin, end = (item.get("begin"), item.get("end")) if isinstance(item, dict) else (None, None)
    if not isinstance(begin, str) or not isinstance(end, str):
        raise GrammarError(f"{KIND}: at {place}: begin and end must be texts", KIND)
    if not any(begin.startswith(trigger) for trigger in triggers):
        raise GrammarError(f"{KIND}: at {place}: begin {begin[:64]!r} must start with one of the triggers", KIND)
    schema = item.get("schema", {})
    if isinstance(schema, str):
        schema = parse_json(schema, KIND)
    content = {"type": "json_schema", "json_schema": schema}
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def _formats(tree: Any, place: str) -> Iterator[tuple[str, Node]]:
    """Every format of a tree with its place."""
    todo = [(place, tree)]
    while todo:
        place, node = todo.pop()
        if not isinstance(node, dict) or str(node.get("type")) not in FORMATS:
            raise GrammarError(f"{KIND}: at {place}: a format is an object whose type is one of {_names()}", KIND)
        yield place, node
        todo += _children(node, place)


def _children(node: Node, place: str) -> Iterator[tuple[str, Any]]:
    if "content" in node:
        yield f"{place}/content", node["content"]
    for name in ("begin", "end"):
        if isinstance(node.get(name), dict):  # a token instead of a text
            yield f"{place}/{name}", node[name]
    for name in ("elements", "tags"):
        items = node.get(name, [])
        if not isinstance(items, list) or len(items) > MAX_TAGS:
            raise GrammarError(f"{KIND}: at {place}/{name}: must be a list with at most {MAX_TAGS} entries", KIND)
        yield from ((f"{place}/{name}/{index}", item) for index, item in enumerate(items))
    for index, rule in enumerate(node.get("rules", []) if isinstance(node.get("rules", []), list) else []):
        if not isinstance(rule, list) or len(rule) != 2:
            raise GrammarError(f"{KIND}: at {place}/rules/{index}: a rule is a pair of pattern and format", KIND)
        yield f"{place}/rules/{index}/1", rule[1]


def _names() -> str:
    return ", ".join(sorted(FORMATS))
