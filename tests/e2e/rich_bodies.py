"""For each route a body that fills as many places as it can, and the shape of its family's errors.

No place can be made wrong in such a way that a long answer is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = Any
Place = tuple[str | int, ...]

FUNCTION = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
TOOL = {"type": "function", "function": {**FUNCTION, "strict": False}}
TEXT = {"type": "text", "text": "Hi"}
NULL = {"type": "null"}
RESULT = {"type": "search_result", "source": "s", "title": "t", "content": [TEXT]}
TAG = {"begin": "<f>", "schema": {"type": "object"}, "end": "</f>"}

CHAT = {
    "model": "m", "max_tokens": 1, "temperature": 0, "seed": 1, "stop": ["q"], "logit_bias": {"5": 1.0},
    "messages": [
        {"role": "user", "name": "u", "content": [TEXT]},
        {"role": "assistant", "content": "x", "reasoning_content": "r",
         "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "7"},
        {"role": "user", "content": "go"},
    ],
    "tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}},
    "stream_options": {"include_usage": True}, "chat_template_kwargs": {"a": 1}, "reasoning": {"effort": "low"},
    "logprobs": True, "top_logprobs": 1,
}  # fmt: skip
FORMATS = {
    "model": "m", "prompt": "x", "max_tokens": 1, "temperature": 0,
    "response_format": {"type": "structural_tag", "structures": [TAG], "triggers": ["<f"], "at_least_one": False},
}  # fmt: skip
TREE = {
    "type": "sequence",
    "elements": [
        {"type": "const_string", "value": "a"},
        {"type": "tag", "begin": "<a>", "content": {"type": "json_schema", "json_schema": NULL}, "end": ["</a>"]},
    ],
}
RESPONSES = {
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "r"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "7"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "g", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "y"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "t"}]},
    ],
    "instructions": "i", "max_output_tokens": 1, "temperature": 0, "top_p": 1.0, "stop": ["q"], "store": False,
    "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False},
              {"type": "custom", "name": "g"}],
    "tool_choice": {"type": "function", "name": "f"}, "reasoning": {"effort": "low", "summary": "auto"},
    "text": {"format": {"type": "json_schema", "name": "n", "schema": NULL, "strict": True}},
    "include": ["message.output_text.logprobs"], "metadata": {"a": "b"},
}  # fmt: skip
MESSAGES = {
    "model": "m", "max_tokens": 1, "temperature": 0, "top_k": 5, "stop_sequences": ["q"], "system": [TEXT],
    "messages": [
        {"role": "user", "content": [TEXT]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"}, TEXT,
                                          {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [TEXT, RESULT]}, RESULT]},
    ],
    "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}], "tool_choice": {"type": "auto"},
    "thinking": {"type": "disabled"},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": NULL}},
}  # fmt: skip
OPTIONS = {"temperature": 0, "top_p": 0.9, "top_k": 5, "num_predict": 1, "stop": ["q"], "repeat_penalty": 1, "seed": 1}
OLLAMA = {"model": "smollm2", "stream": False, "format": NULL, "options": OPTIONS, "keep_alive": "5m", "think": False}
OLLAMA_CALL = {"id": "c", "function": {"name": "f", "arguments": {"a": 1}}}

BODIES: dict[str, list[dict[str, Json]]] = {
    "/v1/chat/completions": [CHAT],
    "/v1/completions": [FORMATS, {**FORMATS, "response_format": {"type": "structural_tag", "format": TREE}}],
    "/v1/responses": [RESPONSES],
    "/v1/messages": [MESSAGES],
    "/v1/messages/count_tokens": [{"model": "m", "messages": [{"role": "user", "content": [TEXT]}]}],
    "/v1/batches": [
        {"input_file_id": "file-x", "endpoint": "/v1/completions", "completion_window": "24h", "metadata": {"a": "b"},
         "output_expires_after": {"anchor": "created_at", "seconds": 3600}}
    ],
    "/api/chat": [
        {**OLLAMA, "messages": [
            {"role": "user", "content": "Hi", "images": []},
            {"role": "assistant", "content": "x", "thinking": "t", "tool_calls": [OLLAMA_CALL]},
            {"role": "tool", "content": "7", "tool_name": "f", "tool_call_id": "c"},
        ]}
    ],
    "/api/generate": [{**OLLAMA, "prompt": "Hi", "system": "s", "template": "{{ .Prompt }}", "context": [1, 2]}],
    "/api/show": [{"model": "smollm2"}],
    "/api/embed": [{"model": "smollm2", "input": ["x"]}],
    "/vertex_generate": [
        {"instances": [{"text": "Hi"}],
         "parameters": {"sampling_params": {"max_new_tokens": 1}, "return_logprob": True}}
    ],
    "/invocations": [{"messages": CHAT["messages"], "max_tokens": 1}],
    "/parse_function_call": [{"text": "Hi", "tools": [TOOL], "tool_call_parser": "qwen25"}],
    "/separate_reasoning": [{"text": "Hi", "reasoning_parser": "qwen3", "return_blocks": True}],
}  # fmt: skip


def places(node: Json, at: Place = ()) -> Iterator[Place]:
    """Every place inside a body."""
    inside = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in inside:
        yield (*at, key)
        yield from places(child, (*at, key))


def replaced(node: Json, place: Place, value: Json) -> Json:
    """A copy with another value in one place."""
    if not place:
        return value
    copy = node.copy()
    copy[place[0]] = replaced(node[place[0]], place[1:], value)
    return copy


def has_error_shape(route: str, status: int, body: Json) -> bool:
    """Whether this is how the family of a route says no."""
    error = body.get("error")
    if route.startswith("/v1/messages"):
        return body.get("type") == "error" and isinstance(error["type"], str) and isinstance(error["message"], str)
    if route.startswith("/api/"):
        return list(body) == ["error"] and isinstance(error, str)
    if route in ("/v1/responses", "/v1/files", "/v1/batches"):
        return set(error) == {"message", "type", "param", "code"} and isinstance(error["message"], str)
    if isinstance(error, str):
        return route in ("/generate", "/vertex_generate")
    if isinstance(error, dict):
        return not route.startswith("/v1/") and isinstance(error["message"], str)
    return body["object"] == "error" and body["code"] == status and isinstance(body["message"], str)
