"""The tools of a request: checked before anything runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from sglang.api.chat.request import ChatRequest
from sglang.ipc.errors import InvalidRequest

MAX_TOOLS = 512
MAX_SCHEMA_CHARS = 500_000
"""All parameter schemas of a request together."""

_TYPE_NAMES = {
    "varchar": "string", "str": "string", "text": "string", "char": "string", "enum": "string",
    "int": "integer", "int32": "integer", "int64": "integer", "long": "integer", "short": "integer",
    "float": "number", "double": "number", "decimal": "number", "float32": "number", "float64": "number",
    "bool": "boolean", "list": "array", "tuple": "array", "dict": "object", "map": "object", "any": None,
}  # fmt: skip
"""Names from other worlds for JSON types; tool lists made by hand are full of them."""
_DATA_KEYS = frozenset({"enum", "const", "default", "examples"})

EMPTY_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


async def check_tools(chat: ChatRequest) -> None:
    """Raise InvalidRequest where tools or tool_choice can't work, naming the tool."""
    choice = chat.tool_choice
    if chat.tools:  # in a thread: a large schema takes a while, and other requests go on meanwhile
        await asyncio.to_thread(_check_tools, chat)
    elif choice.mode in ("required", "named"):
        raise InvalidRequest(f"tool_choice: tools can't be empty when a tool call is {choice.mode}", "tool_choice")


def _check_tools(chat: ChatRequest) -> None:
    choice = chat.tool_choice
    if len(chat.tools) > MAX_TOOLS:
        raise InvalidRequest(f"tools: {len(chat.tools)} tools; at most {MAX_TOOLS} are allowed", "tools")
    sizes = 0
    for index, tool in enumerate(chat.tools):
        text = json.dumps(parameters_of(tool), ensure_ascii=False, sort_keys=True)
        sizes += len(text)
        if sizes > MAX_SCHEMA_CHARS:
            raise InvalidRequest(
                f"tools: their parameters hold more than {MAX_SCHEMA_CHARS} characters of JSON", "tools"
            )
        problem = _known_problem(text) if len(text) <= MAX_KNOWN_CHARS else _schema_problem(text)
        if problem is not None:
            raise InvalidRequest(
                f"tools[{index}].function.parameters: {problem}; accepted: a JSON Schema (draft 2020-12) of an object",
                "tools",
            )
    if choice.mode == "named" and choice.name not in tool_names(chat.tools):
        known = ", ".join(sorted(tool_names(chat.tools)))[:200]
        raise InvalidRequest(f"tool_choice: tool {choice.name!r} is not among the tools ({known})", "tool_choice")


def rendered_tools(chat: ChatRequest) -> list[dict[str, Any]] | None:
    """The tools as templates get them; None where the model must not know of any.

    A named choice shows the named tool alone. Fields that were left out appear as null, as existing servers write
    them, so that prompts are the same here.
    """
    if not chat.tools or chat.tool_choice.mode == "none":
        return None
    named = chat.tool_choice.name
    shown = [tool for tool in chat.tools if named in (None, tool["function"]["name"])]
    return [{**tool, "function": tool["function"] | _nulls(tool["function"])} for tool in shown]


def _nulls(function: dict[str, Any]) -> dict[str, None]:
    return {name: None for name in ("description", "parameters", "defer_loading") if name not in function}


def tool_names(tools: Iterable[dict[str, Any]]) -> set[str]:
    return {tool["function"]["name"] for tool in tools}


def parameters_of(tool: dict[str, Any]) -> dict[str, Any]:
    """The schema of a tool's arguments, with JSON's own type names. A tool without one takes no arguments."""
    schema = tool["function"].get("parameters")
    return _json_types(schema) if schema else EMPTY_PARAMETERS


def _json_types(node: Any) -> Any:
    if isinstance(node, list):
        return [_json_types(item) for item in node]
    if not isinstance(node, dict):
        return node
    renamed = {key: value if key in _DATA_KEYS else _json_types(value) for key, value in node.items()}
    name = renamed.get("type")
    if isinstance(name, str) and name.lower() in _TYPE_NAMES:
        renamed["type"] = _TYPE_NAMES[name.lower()]
        if renamed["type"] is None:
            del renamed["type"]
    return renamed


def _schema_problem(schema: str) -> str | None:
    """What is wrong with a schema; None if nothing is."""
    from jsonschema import Draft202012Validator  # a tenth of a second of start-up that requests with tools pay
    from jsonschema.exceptions import SchemaError, best_match

    try:
        error = best_match(Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(json.loads(schema)))
    except (SchemaError, RecursionError) as failure:
        return f"can't be checked: {type(failure).__name__}"
    if error is None:
        return None
    where = ".".join(str(part) for part in error.absolute_path) or "schema"
    return f"{where}: {error.message[:200]}"


MAX_KNOWN_CHARS = 16_000
_known_problem = lru_cache(maxsize=512)(_schema_problem)
"""Clients send the same tools with every turn."""
