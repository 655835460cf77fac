"""What the routes may answer, for the OpenAPI document."""

from __future__ import annotations

from sglang.api.answers import Responses

ERROR_SCHEMA = {
    "type": "object",
    "required": ["type", "error"],
    "properties": {
        "type": {"const": "error"},
        "error": {
            "type": "object",
            "required": ["type", "message"],
            "properties": {"type": {"type": "string"}, "message": {"type": "string"}},
        },
    },
}


def anthropic_responses(*, stream: bool = False) -> Responses:
    answers: Responses = {
        status: {
            "description": description,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/AnthropicError"}}},
        }
        for status, description in (
            (400, "The request can't be served; the message names the field"),
            (413, "The body is larger than the limit"),
            (503, "Queue full, or the server is shutting down"),
        )
    }
    # Callers without any Anthropic header get the answer that all routes give.
    refs = [{"$ref": f"#/components/schemas/{name}"} for name in ("AnthropicError", "NativeError")]
    answers[401] = {
        "description": "An API key is set and the request lacks it",
        "content": {"application/json": {"schema": {"anyOf": refs}}},
    }
    content: dict[str, dict[str, dict[str, str]]] = {"application/json": {"schema": {}}}
    answers[200] = {"description": "Success", "content": content}
    if stream:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return answers
