"""POST /parse_function_call and /separate_reasoning: the parsers of the chat routes, over text that is whole."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from sglang.api.answers import native_responses
from sglang.api.body import RequestModel, body_doc, read_body
from sglang.api.chat.parsing import whole_parser
from sglang.api.errors import json_response
from sglang.api.openai.protocol.chat import Tool
from sglang.api.work import manager
from sglang.config.env import read_env
from sglang.ipc.errors import InvalidRequest
from sglang.parsers.choose import choose_reasoning, choose_tool_format
from sglang.parsers.events import ReasoningDelta, TextDelta
from sglang.parsers.registry import make_tool_parser, parse_whole
from sglang.parsers.tools.writer import ToolSpecs

MAX_TEXT_CHARS = 1_000_000

router = APIRouter(tags=["native"], responses=native_responses())


class ParseFunctionCallRequest(RequestModel):
    text: str = Field(max_length=MAX_TEXT_CHARS)
    tools: list[Tool]
    tool_call_parser: str


class SeparateReasoningRequest(RequestModel):
    text: str = Field(max_length=MAX_TEXT_CHARS)
    reasoning_parser: str
    return_blocks: bool = False


@router.post("/parse_function_call", openapi_extra=body_doc(ParseFunctionCallRequest))
async def parse_function_call(request: Request) -> Response:
    """Tool calls in a text."""
    body = await read_body(request, ParseFunctionCallRequest)
    name = _known(choose_tool_format, body.tool_call_parser, request)
    specs = ToolSpecs.of([tool.model_dump() for tool in body.tools], read_env().forward_unknown_tools)
    text = body.text
    calls: list[tuple[str, str]] = []
    if name is not None:  # in a thread: a long text takes a while, and other requests go on meanwhile
        text, calls = await asyncio.to_thread(parse_whole, make_tool_parser(name, specs), body.text)
    found = [
        {"tool_index": index, "name": tool, "parameters": arguments} for index, (tool, arguments) in enumerate(calls)
    ]
    return json_response({"normal_text": text, "calls": found})


@router.post("/separate_reasoning", openapi_extra=body_doc(SeparateReasoningRequest))
async def separate_reasoning(request: Request) -> Response:
    """Thoughts and answer of a text."""
    body = await read_body(request, SeparateReasoningRequest)
    parser = whole_parser(_known(choose_reasoning, body.reasoning_parser, request))
    blocks: list[dict[str, str]] = []
    for event in (*parser.push(body.text), *parser.finish()):
        if isinstance(event, TextDelta | ReasoningDelta):
            kind = "text" if isinstance(event, TextDelta) else "reasoning"
            if blocks and blocks[-1]["type"] == kind:
                blocks[-1]["text"] += event.text
            else:
                blocks.append({"type": kind, "text": event.text})
    parts = {kind: [block["text"] for block in blocks if block["type"] == kind] for kind in ("reasoning", "text")}
    answer: dict[str, Any] = {"reasoning_text": "".join(parts["reasoning"]), "text": "".join(parts["text"])}
    if body.return_blocks:
        answer |= {"reasoning_blocks": parts["reasoning"], "text_blocks": parts["text"], "blocks": blocks}
    return json_response(answer)


def _known(choose: Any, name: str, request: Request) -> str | None:
    template = manager(request).chat_template
    try:
        found: str | None = choose(name, template.source if template is not None else None)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    return found
