"""What the routes may answer, for the OpenAPI document."""

from __future__ import annotations

from sglang.api.answers import Responses

_MEANING = {
    400: "The request can't be served; the text names the field",
    401: "An API key is set and the request lacks it",
    404: "The server does not serve this model",
    413: "The body is larger than the limit",
    503: "Queue full, or the server is shutting down",
}


def ollama_responses() -> Responses:
    schema = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
    content = {"application/json": {"schema": schema}}
    return {status: {"description": text, "content": content} for status, text in _MEANING.items()}
