"""Reads a JSON schema before any library does: wrong ones are refused with the place, and we learn who can serve it.

xgrammar silently passes over keywords it does not know, llguidance refuses them. So a schema goes to xgrammar only if
it is made of the forms listed here, for which its output always validates (a property test holds this).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from sglang.grammar.spec import GrammarError, parse_json

TYPES = ("null", "boolean", "object", "array", "number", "string", "integer")

ANNOTATIONS = frozenset(
    {
        "$schema", "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly",
        "contentEncoding", "contentMediaType", "contentSchema", "x-guidance", "strict",
    }
)  # fmt: skip
"""Keywords that forbid nothing."""

_DEFINITIONS = ("$defs", "definitions")
_SCHEMA_MAPS = ("properties", "patternProperties", "dependentSchemas", *_DEFINITIONS)
_SCHEMA_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SCHEMAS = (
    "additionalProperties", "additionalItems", "items", "contains", "not", "if", "then", "else", "propertyNames",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_NUMBERS = ("minimum", "maximum", "multipleOf")
_COMBINERS = frozenset({"anyOf", "oneOf", "allOf", "$ref", "not", "if"})

MAX_NODES = 5_000
"""Subschemas of one schema."""
MAX_COUNT = 1_000_000
"""Largest length or number of items that a schema may speak of."""
EXACT_INTEGER = 1 << 53

Node = dict[str, Any]


@dataclass(slots=True)
class SchemaReport:
    """What is in a schema."""

    root: Any
    exact: bool = True
    """Whether xgrammar keeps every rule of it."""
    combines: bool = False
    """Whether rules of several subschemas apply to one value."""
    patterns: list[tuple[str, str]] = field(default_factory=list)
    """(place, pattern) of every regex."""
    places: dict[str, str] = field(default_factory=dict)
    """Keyword → one of the places where it stands."""


def read_schema(text: str, kind: str = "json_schema") -> SchemaReport:
    """Check a schema. Raises :class:`GrammarError` naming the place and what is accepted there."""
    return inspect_schema(parse_json(text, kind), kind)


def inspect_schema(root: Any, kind: str = "json_schema", place: str = "#") -> SchemaReport:
    """:func:`read_schema` for a schema that is parsed already."""
    report = SchemaReport(root)
    todo: list[tuple[str, Any]] = [(place, root)]
    seen = 0
    while todo:
        place, node = todo.pop()
        seen += 1
        if seen > MAX_NODES:
            raise GrammarError(f"{kind}: more than {MAX_NODES} subschemas are too many", kind)
        if isinstance(node, bool):
            report.exact = report.exact and node
            continue
        if not isinstance(node, dict):
            raise _wrong(kind, place, "a schema is an object or a boolean", node)
        _check_node(node, place, root, kind)
        report.exact = report.exact and _is_exact(node, node is root)
        report.combines = report.combines or _combines(node)
        report.places.update(dict.fromkeys(node, place))
        if "pattern" in node:
            report.patterns.append((f"{place}/pattern", node["pattern"]))
        report.patterns += [(f"{place}/patternProperties", key) for key in node.get("patternProperties", ())]
        todo += _children(node, place)
    return report


def _children(node: Node, place: str) -> Iterator[tuple[str, Any]]:
    for name in _SCHEMA_MAPS:
        for key, child in node.get(name, {}).items():
            yield f"{place}/{name}/{key}", child
    for name in _SCHEMA_LISTS:
        for index, child in enumerate(node.get(name, ())):
            yield f"{place}/{name}/{index}", child
    for name in _SCHEMAS:
        if name in node:
            child = node[name]
            if child is False and name == "additionalProperties":
                continue  # a rule of the object itself
            if name == "items" and isinstance(child, list):  # draft 7 and before
                yield from ((f"{place}/items/{index}", item) for index, item in enumerate(child))
            else:
                yield f"{place}/{name}", child


# ------------------------------------------------------------------ form


def _wrong(kind: str, place: str, accepted: str, value: object) -> GrammarError:
    shown = repr(value)
    return GrammarError(f"{kind}: at {place}: {accepted}, got {shown[:64]}{'…' if len(shown) > 64 else ''}", kind)


def _check_node(node: Node, place: str, root: Any, kind: str) -> None:
    for name, value in node.items():
        form = _FORMS.get(name)
        if form is not None and not form[1](value):
            raise _wrong(kind, f"{place}/{name}", form[0], value)
    if "$ref" in node:
        _check_reference(node["$ref"], f"{place}/$ref", root, kind)


def _is_count(value: object) -> bool:
    whole = value.is_integer() if isinstance(value, float) else isinstance(value, int) and not isinstance(value, bool)
    return whole and 0 <= value <= MAX_COUNT  # type: ignore[operator]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_type(value: object) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name in TYPES for name in names)


def _are_names(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_map(value: object) -> bool:
    return isinstance(value, dict)


def _is_filled_list(value: object) -> bool:
    return isinstance(value, list) and bool(value)


_FORMS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "type": (f"one of {', '.join(TYPES)}, or a list of them", _is_type),
    "required": ("a list of property names", _are_names),
    "enum": ("a list with at least one value", _is_filled_list),
    "pattern": ("a regular expression as text", lambda value: isinstance(value, str)),
    "format": ("the name of a format", lambda value: isinstance(value, str)),
    **dict.fromkeys(_SCHEMA_MAPS, ("an object of schemas", _is_map)),
    **dict.fromkeys(_SCHEMA_LISTS, ("a list with at least one schema", _is_filled_list)),
    **dict.fromkeys(_COUNTS, (f"a whole number in [0, {MAX_COUNT}]", _is_count)),
    **dict.fromkeys(_NUMBERS, ("a number", _is_number)),
}
"""Keyword → (what is accepted, whether a value is)."""


def _check_reference(value: object, place: str, root: Any, kind: str) -> None:
    """References must lead to a place in the same schema, and not only to other references for ever."""
    seen = set()
    while True:
        if not isinstance(value, str):
            raise _wrong(kind, place, "a reference is a text", value)
        if value in seen:
            raise _wrong(kind, place, "a reference must lead to a schema, not in a circle", value)
        seen.add(value)
        target = _resolve(value, place, root, kind)
        if not (isinstance(target, dict) and set(target) - ANNOTATIONS == {"$ref"}):
            return
        value = target["$ref"]


def _resolve(reference: str, place: str, root: Any, kind: str) -> object:
    accepted = "a reference like #/$defs/name to a place in this schema"
    if reference != "#" and not reference.startswith("#/"):
        raise _wrong(kind, place, accepted, reference)
    target = root
    for step in reference.split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(target, dict) and name in target:
            target = target[name]
        elif isinstance(target, list) and name.isdecimal() and int(name) < len(target):
            target = target[int(name)]
        else:
            raise _wrong(kind, place, f"{accepted}; there is no {step!r} there", reference)
    return target


# ------------------------------------------------------------------ who can serve it


def _combines(node: Node) -> bool:
    combiners = _COMBINERS & node.keys()
    if not combiners:
        return False
    others = node.keys() - ANNOTATIONS - set(_DEFINITIONS)
    return len(others) > 1 or "allOf" in combiners or "not" in combiners or "if" in combiners


def _is_exact(node: Node, is_root: bool) -> bool:
    """Whether xgrammar keeps every rule that this node itself states."""
    names = node.keys() - ANNOTATIONS
    if is_root:
        names -= set(_DEFINITIONS)
    if not names or names in ({"$ref"}, {"anyOf"}):
        return True
    if any(isinstance(node.get(name), float) for name in _COUNTS):
        return False
    if names <= {"enum", "const", "type"} and names & {"enum", "const"}:
        return _is_exact_choice(node)
    if not isinstance(node.get("type", ""), str):
        return names == {"type"} and "integer" not in node["type"]
    rules = _EXACT_RULES.get(node.get("type") or ("object" if "properties" in node else ""))
    return rules is not None and names - {"type"} <= rules and _is_exact_object(node)


_EXACT_RULES = {
    "null": frozenset[str](),
    "boolean": frozenset[str](),
    "string": frozenset[str](),
    "number": frozenset[str](),
    "integer": frozenset[str](),
    "array": frozenset({"items", "minItems", "maxItems"}),
    "object": frozenset({"properties", "required", "additionalProperties"}),
}
"""Type -> keywords beside it that xgrammar keeps."""


def _is_exact_object(node: Node) -> bool:
    known = node.get("properties", {})
    more = node.get("additionalProperties", False)
    # With free keys beside known ones, a known key could come a second time with another kind of value.
    return set(node.get("required", ())) <= set(known) and not (known and more is not False)


def _is_exact_choice(node: Node) -> bool:
    values = node["enum"] if "enum" in node else [node["const"]]
    if "enum" in node and "const" in node:
        return False
    kind = node.get("type")
    return all(_is_plain(value) and (kind is None or _has_type(value, kind)) for value in values)


def _is_plain(value: object) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < EXACT_INTEGER
    return value is None or isinstance(value, bool | str)


def _has_type(value: object, kind: object) -> bool:
    if isinstance(kind, list):
        return any(_has_type(value, item) for item in kind)
    if isinstance(value, bool):
        return kind == "boolean"
    if isinstance(value, int):
        return kind in ("integer", "number")
    return kind == ("null" if value is None else "string")
