"""What a caller wants the answer to look like → one grammar for the sampler."""

from __future__ import annotations

import json
from typing import Any

from sglang.ipc.errors import InvalidRequest

Constraint = tuple[str, str]
"""A field of the sampling parameters and its text: ("json_schema", '{"type": "object"}')."""

_TYPES = ("text", "json_object", "json_schema", "structural_tag")


def choose_constraint(
    response_format: dict[str, Any] | None, regex: str | None = None, ebnf: str | None = None
) -> Constraint | None:
    """The one constraint that is set, None if there is none. Raises InvalidRequest where there are several."""
    found = [
        constraint
        for constraint in (
            format_constraint(response_format),
            ("regex", regex) if regex else None,
            ("ebnf", ebnf) if ebnf else None,
        )
        if constraint is not None
    ]
    if len(found) > 1:
        given = " and ".join(name if name in ("regex", "ebnf") else "response_format" for name, _ in found)
        raise InvalidRequest(f"at most one of response_format, regex and ebnf can be set; got {given}", "regex")
    return found[0] if found else None


def format_constraint(response_format: dict[str, Any] | None) -> Constraint | None:
    """The grammar of an OpenAI ``response_format``; None for plain text."""
    if response_format is None:
        return None
    kind = response_format.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return "json_schema", '{"type": "object"}'
    if kind == "json_schema":
        return "json_schema", _dumps(_schema(response_format))
    if kind == "structural_tag":
        return "structural_tag", _dumps(_structural_tag(response_format))
    raise InvalidRequest(
        f"response_format.type: must be one of {', '.join(_TYPES)}; got {str(kind)[:40]!r}", "response_format"
    )


def _schema(response_format: dict[str, Any]) -> Any:
    """The schema in ``json_schema.schema``, or beside the type, as some clients send it."""
    holder = response_format.get("json_schema", response_format)
    if not isinstance(holder, dict) or holder.get("schema") is None:
        raise InvalidRequest(
            'response_format.json_schema.schema: is missing; send {"type": "json_schema", "json_schema": '
            '{"name": ..., "schema": {...}}}',
            "response_format",
        )
    strict = holder.get("strict")
    if strict is not None and not isinstance(strict, bool):
        raise InvalidRequest("response_format.json_schema.strict: must be true or false", "response_format")
    for field in ("name", "description"):
        if not isinstance(holder.get(field), str | None):
            raise InvalidRequest(f"response_format.json_schema.{field}: must be a string", "response_format")
    schema = holder["schema"]
    if not isinstance(schema, dict | bool):
        raise InvalidRequest("response_format.json_schema.schema: must be an object", "response_format")
    return schema


def _structural_tag(response_format: dict[str, Any]) -> dict[str, Any]:
    """Both forms travel as they came: ``structures`` + ``triggers``, and the ``format`` tree."""
    if isinstance(response_format.get("format"), dict):
        return {"type": "structural_tag", "format": response_format["format"]}
    structures, triggers = response_format.get("structures"), response_format.get("triggers")
    if not isinstance(structures, list) or not isinstance(triggers, list):
        raise InvalidRequest(
            "response_format: a structural_tag needs structures and triggers (two lists), or format (a tree)",
            "response_format",
        )
    return {key: value for key, value in response_format.items() if key != "model"}


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
