"""Request bodies: strict JSON, strict types, messages that name the field, and their place in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import orjson
from fastapi import Request
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from sglang.api.errors import validation_error

MAX_JSON_DEPTH = 128
"""Deepest nesting of a body; tool schemas and chat histories stay far below."""

JSON_TYPE = "application/json"


def _allow_null(schema: dict[str, Any]) -> None:
    """Document what :class:`RequestModel` accepts: null in every optional field."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        if name in required or field.get("type") == "null" or {"type": "null"} in field.get("anyOf", ()):
            continue
        schema["properties"][name] = {"anyOf": [field, {"type": "null"}]}


class RequestModel(BaseModel):
    """Base of all request bodies: no type coercion, unknown keys ignored, null in an optional field = absent."""

    model_config = ConfigDict(strict=True, extra="ignore", json_schema_extra=_allow_null, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, data: Any) -> Any:
        if isinstance(data, dict):
            fields = cls.model_fields
            return {k: v for k, v in data.items() if v is not None or (k in fields and fields[k].is_required())}
        return data


Model = TypeVar("Model", bound=RequestModel)


def parse_json(raw: bytes) -> Any:
    """Decode a body. Refuses NaN, Infinity, invalid UTF-8 and deep nesting; integers over 64 bits come back as
    floats, so that no integer field accepts them."""
    if not raw.strip():
        raise validation_error("body: a JSON object is required, but the body is empty")
    try:
        data = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise validation_error(f"body: not valid JSON: {error}") from None
    if raw.count(b"[") + raw.count(b"{") > MAX_JSON_DEPTH and _deeper_than(data, MAX_JSON_DEPTH):
        raise validation_error(f"body: JSON is nested deeper than {MAX_JSON_DEPTH} levels")
    return data


def _deeper_than(data: Any, limit: int) -> bool:
    level: list[Any] = [data]
    for _ in range(limit):
        level = [item for parent in level for item in _children(parent) if isinstance(item, list | dict)]
        if not level:
            return False
    return True


def _children(node: Any) -> Iterable[Any]:
    return node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()


def require_json_type(request: Request) -> None:
    """The ``/v1`` family takes ``application/json`` only (parameters such as ``charset`` allowed)."""
    given = request.headers.get("content-type", "")
    if given.split(";", 1)[0].strip().lower() != JSON_TYPE:
        raise validation_error(f"header content-type: unsupported media type {given[:80]!r}; send {JSON_TYPE}")


async def read_body(request: Request, model: type[Model], *, json_only: bool = False) -> Model:
    """Read, decode and check a body; a bad one raises the 400 validation shape naming the fields."""
    if json_only:
        require_json_type(request)
    return validate(model, parse_json(await request.body()))


async def read_optional_body(request: Request, model: type[Model]) -> Model:
    """As :func:`read_body`, but an empty body stands for ``{}``."""
    raw = await request.body()
    return validate(model, parse_json(raw) if raw.strip() else {})


def validate(model: type[Model], data: Any) -> Model:
    if not isinstance(data, dict):
        raise validation_error(f"body: a JSON object is required, got {_json_type(data)}")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise validation_error(describe(error)) from None


def describe(error: ValidationError) -> str:
    """``messages.0.role: Input should be …; n: …``: one entry a field, the alternatives of a union joined by "or"."""
    fields: dict[str, list[str]] = {}
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        message = item["msg"].removeprefix("Value error, ")
        reasons = fields.setdefault(_path(item["loc"]), [])
        if message not in reasons:
            reasons.append(message)
    return "; ".join(f"{path or 'body'}: {' or '.join(reasons)}" for path, reasons in fields.items())


_UNION_TAGS = frozenset({"str", "int", "float", "bool", "dict", "list"})


def _path(loc: tuple[int | str, ...]) -> str:
    """Dotted path without the names pydantic gives to members of a union."""
    parts: list[str] = []
    for part in loc:
        text = str(part)
        if isinstance(part, int) or (text.isidentifier() and text not in _UNION_TAGS and not text[0].isupper()):
            parts.append(text)
    return ".".join(parts)


def _json_type(data: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(data), "null")


def body_doc(model: type[RequestModel], *, required: bool = True) -> dict[str, Any]:
    """``openapi_extra`` of a route that reads its body by :func:`read_body`."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": required, "content": {JSON_TYPE: {"schema": schema}}}}
