"""Tools of the responses API → functions of the chat core."""

from __future__ import annotations

from typing import Any

from sglang.api.chat.request import ToolChoice
from sglang.api.openai.protocol.responses import ResponsesRequest, ResponseTool
from sglang.api.openai.responses.input import CUSTOM_INPUT
from sglang.api.openai.wrapped import wrapped_error

MODES = ("none", "auto", "required")


def functions(body: ResponsesRequest) -> list[dict[str, Any]]:
    """The callable tools. A custom tool takes one text. Hosted tools (web search and the like) don't exist here."""
    found = []
    for index, tool in enumerate(body.tools):
        if tool.type not in ("function", "custom"):
            continue
        if not tool.name:
            raise wrapped_error(f"tools[{index}].name: a tool of type {tool.type} needs a name", 400, "tools")
        found.append(_function(tool))
    allowed = _allowed(body.tool_choice)
    return found if allowed is None else [tool for tool in found if tool["function"]["name"] in allowed]


def custom_names(body: ResponsesRequest) -> frozenset[str]:
    return frozenset(tool.name for tool in body.tools if tool.type == "custom" and tool.name)


def tool_choice(body: ResponsesRequest, tools: list[dict[str, Any]]) -> ToolChoice:
    """Raises ApiError where the choice can't be met."""
    choice = body.tool_choice
    mode = choice if isinstance(choice, str) else _mode(choice)
    if mode not in (*MODES, "named"):
        raise _refusal(f"must be one of {', '.join(MODES)} or an object that names a function; got {mode[:40]!r}")
    if not tools and mode in ("required", "named"):
        raise _refusal("needs a tool of type function or custom")
    if mode != "named" or isinstance(choice, str):
        return ToolChoice("none" if not tools else mode)  # type: ignore[arg-type]
    name = choice.get("name")
    if not any(tool["function"]["name"] == name for tool in tools):
        known = ", ".join(tool["function"]["name"] for tool in tools)[:200]
        raise _refusal(f"no tool is named {str(name)[:80]!r}; the tools are {known}")
    return ToolChoice("named", name)


def _mode(choice: dict[str, Any]) -> str:
    kind = choice.get("type")
    if kind in ("function", "custom"):
        return "named"
    if kind == "allowed_tools":
        return str(choice.get("mode", "auto"))
    raise _refusal(f"type must be function, custom or allowed_tools; got {str(kind)[:40]!r}")


def _allowed(choice: str | dict[str, Any]) -> set[str] | None:
    """The names that tool_choice leaves over; None: all."""
    if isinstance(choice, str) or choice.get("type") != "allowed_tools":
        return None
    tools = choice.get("tools")
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise _refusal("allowed_tools needs a list of tools")
    return {str(tool.get("name")) for tool in tools}


def _function(tool: ResponseTool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.type == "custom":
        text = {"type": "string", "description": "free text for the tool"}
        function["parameters"] = {"type": "object", "properties": {CUSTOM_INPUT: text}, "required": [CUSTOM_INPUT]}
    elif tool.parameters is not None:
        function["parameters"] = tool.parameters
    if tool.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def tool_echo(tool: ResponseTool) -> dict[str, Any]:
    """A tool as the response object repeats it."""
    echo = {"type": tool.type, "name": tool.name, "description": tool.description, "parameters": tool.parameters}
    rest = {"strict": tool.strict, "tools": None, "defer_loading": None, "format": None}
    return {**echo, **rest, **(tool.model_extra or {})}


def _refusal(words: str) -> Exception:
    return wrapped_error(f"tool_choice: {words}", 400, "tool_choice")
