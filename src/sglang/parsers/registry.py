"""Tool-call formats by name, and the format that a chat template speaks."""

from __future__ import annotations

from collections.abc import Mapping

from sglang.parsers.events import ParserEvent, TextDelta, ToolCallArguments, ToolCallEnd, ToolCallStart
from sglang.parsers.harmony import HarmonyParser
from sglang.parsers.output import TextParser
from sglang.parsers.tools import (
    cohere_command4,
    deepseekv3,
    deepseekv31,
    deepseekv32,
    forced,
    gemma4,
    gigachat3,
    glm45,
    hunyuan,
    interns1,
    kimi_k2,
    kimi_k3,
    lfm2,
    llama3,
    minimax_m2,
    mistral,
    pythonic,
    qwen,
    qwen3_coder,
    step3,
)
from sglang.parsers.tools.writer import Format, ToolParser, ToolSpecs

GPT_OSS = "gpt-oss"

FORMATS: Mapping[str, Format] = {
    "cohere_command4": cohere_command4.read,
    "deepseekv3": deepseekv3.read,
    "deepseekv31": deepseekv31.read,
    "deepseekv32": deepseekv32.read,
    "deepseekv4": deepseekv32.read,
    "deepseekv41": deepseekv32.read,
    "gemma4": gemma4.read,
    "gigachat3": gigachat3.read,
    "gigachat35": gigachat3.read,
    "glm": glm45.read,
    "glm45": glm45.read,
    "glm47": glm45.read,
    "hermes": qwen.read,
    "hunyuan": hunyuan.read,
    "interns1": interns1.read,
    "kimi_k2": kimi_k2.read,
    "kimi_k3": kimi_k3.read,
    "lfm2": lfm2.read,
    "llama3": llama3.read,
    "mimo": qwen3_coder.read,
    "minimax-m2": minimax_m2.read,
    "mistral": mistral.read,
    "nanbeige": qwen3_coder.read,
    "poolside_v1": glm45.read,
    "pythonic": pythonic.read,
    "qwen": qwen.read,
    "qwen25": qwen.read,
    "qwen3_coder": qwen3_coder.read,
    "step3": step3.read,
    "step3p5": qwen3_coder.read,
    "trinity": qwen.read,
}

TOOL_PARSERS = (*sorted(FORMATS), GPT_OSS)
"""Every accepted name."""

# Marker in a chat template → format; the first that fits wins, so the longer and rarer ones come first.
_HINTS = (
    ("<|channel|>commentary", GPT_OSS),
    ("<|tool_calls_section_begin|>", "kimi_k2"),
    ("<|open|>", "kimi_k3"),
    ("｜DSML｜", "deepseekv32"),
    ("｜GCML｜", "gigachat3"),
    ("<steptml:", "step3"),
    ("<minimax:tool_call>", "minimax-m2"),
    ("<|START_ACTION|>", "cohere_command4"),
    ("<|tool_call_start|>", "lfm2"),
    ("<|tool_call>", "gemma4"),
    ("<|action_start|>", "interns1"),
    ("<tool_sep>", "hunyuan"),
    ("<arg_key>", "glm45"),
    ("<function=", "qwen3_coder"),
    ("[TOOL_CALLS]", "mistral"),
    ("<|python_start|>", "pythonic"),
    ("<|python_tag|>", "llama3"),
    ("<tool_call>", "qwen25"),
)


def detect_tool_format(template: str) -> str | None:
    """The format of the calls that a chat template writes; None where it writes none."""
    if "<｜tool▁calls▁begin｜>" in template:
        return "deepseekv3" if "```json" in template else "deepseekv31"
    return next((name for marker, name in _HINTS if marker in template), None)


def make_tool_parser(name: str, tools: ToolSpecs) -> TextParser:
    """A parser for one answer. ``name`` is one of :data:`TOOL_PARSERS`."""
    if name == GPT_OSS:
        return HarmonyParser(separate=False, tools=tools)
    return ToolParser(FORMATS[name], tools)


def make_forced_parser(tools: ToolSpecs) -> TextParser:
    """A parser for calls that the JSON-list grammar forced."""
    return ToolParser(forced.read, tools)


def parse_whole(parser: TextParser, text: str) -> tuple[str, list[tuple[str, str]]]:
    """The text and the complete calls (name, JSON of the arguments) of a whole answer."""
    events: list[ParserEvent] = [*parser.push(text), *parser.finish()]
    said: list[str] = []
    calls: list[tuple[str, str]] = []
    for event in events:
        if isinstance(event, TextDelta):
            said.append(event.text)
        elif isinstance(event, ToolCallStart):
            calls.append((event.name, ""))
        elif isinstance(event, ToolCallArguments):
            calls[-1] = (calls[-1][0], calls[-1][1] + event.delta)
        elif isinstance(event, ToolCallEnd) and not event.complete:
            calls.pop()
    return "".join(said), calls
