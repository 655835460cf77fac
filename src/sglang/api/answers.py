"""What routes may answer, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

Responses = dict[int | str, dict[str, Any]]

_ERROR_OBJECT = {
    "type": "object",
    "required": ["object", "message", "type", "param", "code"],
    "properties": {
        "object": {"const": "error"},
        "message": {"type": "string"},
        "type": {"type": "string"},
        "param": {},
        "code": {"type": "integer"},
    },
}
_NATIVE_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "anyOf": [
                {"type": "string"},
                {"type": "object", "required": ["message"], "properties": {"message": {"type": "string"}}},
            ]
        }
    },
}

_WRAPPED_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {"message": {"type": "string"}, "type": {"type": "string"}, "param": {}, "code": {}},
        }
    },
}

ERROR_SCHEMAS: dict[str, Any] = {
    "ErrorObject": _ERROR_OBJECT,
    "NativeError": _NATIVE_ERROR,
    "WrappedError": _WRAPPED_ERROR,
}


def _json(*names: str) -> dict[str, Any]:
    refs = [{"$ref": f"#/components/schemas/{name}"} for name in names]
    return {"application/json": {"schema": refs[0] if len(refs) == 1 else {"anyOf": refs}}}


def _error(description: str, *names: str) -> dict[str, Any]:
    return {"description": description, "content": _json(*names)}


_ACCESS: Responses = {
    401: _error("An API key is set and the request lacks it", "NativeError"),
    503: _error("Queue full, or the server is shutting down", "ErrorObject"),
}

EMPTY_200: Responses = {200: {"description": "Done; the body is empty"}}
JSON_OR_TEXT_200: Responses = {
    200: {
        "description": "Success",
        "content": {"application/json": {"schema": {}}, "text/plain": {"schema": {"type": "string"}}},
    }
}
TEXT_200: Responses = {
    200: {"description": "Done", "content": {"text/plain": {"schema": {"type": "string"}}}},
    400: {
        "description": "Refused",
        "content": {"text/plain": {"schema": {"type": "string"}}, **_json("ErrorObject")},
    },
}


def _ok(stream: bool) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": {}}}
    if stream:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return {"description": "Success", "content": content}


def native_responses(*, stream: bool = False) -> Responses:
    return {
        200: _ok(stream),
        400: _error("The request can't be served; the message names the field", "ErrorObject", "NativeError"),
        413: _error("The body is larger than the limit", "ErrorObject"),
        **_ACCESS,
    }


def control_responses() -> Responses:
    return {**native_responses(), 403: _error("Called by a page of another origin while no key is set", "NativeError")}


def openai_responses(*, stream: bool = False) -> Responses:
    return {
        200: _ok(stream),
        400: _error("The request can't be served; the message names the field", "ErrorObject"),
        413: _error("The body is larger than the limit", "ErrorObject"),
        **_ACCESS,
    }


def wrapped_responses(*, stream: bool = False) -> Responses:
    return {
        200: _ok(stream),
        400: _error("The request can't be served; the message names the field", "WrappedError"),
        404: _error("There is no such thing", "WrappedError"),
        413: _error("The body is larger than the limit", "ErrorObject"),
        401: _ACCESS[401],
        503: _error("Too much to do, or the server is shutting down", "WrappedError", "ErrorObject"),
    }


def files_responses() -> Responses:
    return {
        **wrapped_responses(),
        403: _error("Called by a page of another origin while no key is set", "WrappedError"),
    }


def info_responses() -> Responses:
    return {400: _error("A query parameter is wrong", "ErrorObject"), **_ACCESS}


def probe_responses() -> Responses:
    return {401: _ACCESS[401], 503: {"description": "Not able to serve; the body is empty"}}
