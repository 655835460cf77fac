"""How each format's models write calls, as data: what grammars for tool calls are made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tagged:
    """Arguments that stand in tags one by one: ``begin`` value ``end``, with ``{key}`` for the argument's name.

    ``{is_text}`` becomes true where the value is plain text and false where it is JSON.
    """

    begin: str
    end: str


@dataclass(frozen=True, slots=True)
class CallShape:
    """``section[0]`` call ``separator`` call ... ``section[1]``, where a call is ``begin`` arguments ``end``.

    In ``begin``, ``{name}`` stands for the tool's name, ``{quoted}`` for the name as a JSON string, ``{index}`` for a
    number that the model chooses. ``trigger`` is the text that announces a call in an answer that may be text as well
    (a section, or a special token, announces itself). ``tagged``: the arguments are no JSON object.
    """

    begin: str
    end: str
    separator: str = ""
    section: tuple[str, str] = ("", "")
    trigger: str = ""
    tagged: Tagged | None = None
    template: str = ""
    """The shape is for chat templates with this text in them."""


_QWEN = CallShape(
    '<tool_call>\n{"name": {quoted}, "arguments": ', "}\n</tool_call>", separator="\n", trigger="<tool_call>"
)
_QWEN3_CODER = CallShape(
    "<tool_call>\n<function={name}>\n",
    "</function>\n</tool_call>",
    separator="\n",
    trigger="<tool_call>",
    tagged=Tagged("<parameter={key}>\n", "\n</parameter>\n"),
)
_GLM45 = CallShape(
    "<tool_call>{name}\n",
    "</tool_call>",
    separator="\n",
    trigger="<tool_call>",
    tagged=Tagged("<arg_key>{key}</arg_key>\n<arg_value>", "</arg_value>\n"),
)
_GLM47 = CallShape(
    "<tool_call>{name}",
    "</tool_call>",
    trigger="<tool_call>",
    tagged=Tagged("<arg_key>{key}</arg_key><arg_value>", "</arg_value>"),
)


def _dsml(block: str) -> CallShape:
    return CallShape(
        '<｜DSML｜invoke name="{name}">\n',
        "</｜DSML｜invoke>\n",
        section=(f"<｜DSML｜{block}>\n", f"</｜DSML｜{block}>"),
        tagged=Tagged('<｜DSML｜parameter name="{key}" string="{is_text}">', "</｜DSML｜parameter>\n"),
    )


SHAPES: dict[str, tuple[CallShape, ...]] = {
    "cohere_command4": (
        CallShape(
            '    {"tool_call_id": "{index}", "tool_name": {quoted}, "parameters": ',
            "}",
            separator=",\n",
            section=("<|START_ACTION|>[\n", "\n]<|END_ACTION|>"),
        ),
    ),
    "deepseekv3": (
        CallShape(
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n",
            "\n```<｜tool▁call▁end｜>",
            separator="\n",
            section=("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
        ),
    ),
    "deepseekv31": (
        CallShape(
            "<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>",
            "<｜tool▁call▁end｜>",
            section=("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
        ),
    ),
    "deepseekv32": (_dsml("function_calls"),),
    "deepseekv4": (_dsml("tool_calls"),),
    "deepseekv41": (_dsml("tool_calls"),),
    "glm": (_GLM45,),
    "glm45": (_GLM45,),
    "glm47": (_GLM47,),
    "hermes": (CallShape('<tool_call>{"name": {quoted}, "arguments": ', "}</tool_call>", trigger="<tool_call>"),),
    "hunyuan": (
        CallShape(
            "<tool_call>{name}<tool_sep>\n",
            "</tool_call>\n",
            section=("<tool_calls>\n", "</tool_calls>"),
            tagged=Tagged("<arg_key>{key}</arg_key>\n<arg_value>", "</arg_value>\n"),
        ),
    ),
    "interns1": (
        CallShape(
            '<|action_start|> <|plugin|>\n{"name": {quoted}, "parameters": ', "}<|action_end|>", separator="\n"
        ),
    ),
    "kimi_k2": (
        CallShape(
            "<|tool_call_begin|>functions.{name}:{index}<|tool_call_argument_begin|>",
            "<|tool_call_end|>",
            section=("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
        ),
    ),
    # Answers may be JSON objects with a name too, so only those with the name of a tool are calls.
    "llama3": (
        CallShape('{"name": {quoted}, "parameters": ', "}", separator="; ", trigger='{"name": {quoted}'),
    ),
    "mimo": (_QWEN3_CODER,),
    "minimax-m2": (
        CallShape(
            '<invoke name="{name}">\n',
            "</invoke>\n",
            section=("<minimax:tool_call>\n", "</minimax:tool_call>"),
            tagged=Tagged('<parameter name="{key}">', "</parameter>\n"),
        ),
    ),
    "mistral": (
        CallShape("[TOOL_CALLS]{name}[ARGS]", "", template="[ARGS]"),
        CallShape(
            '{"name": {quoted}, "arguments": ', "}", separator=", ", section=("[TOOL_CALLS] [", "]")
        ),
    ),
    "nanbeige": (_QWEN3_CODER,),
    "poolside_v1": (_GLM47,),
    "qwen": (_QWEN,),
    "qwen25": (_QWEN,),
    "qwen3_coder": (_QWEN3_CODER,),
    "step3": (
        CallShape(
            '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">',
            "</steptml:invoke><｜tool_call_end｜>",
            section=("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"),
            tagged=Tagged('<steptml:parameter name="{key}">', "</steptml:parameter>"),
        ),
    ),
    "step3p5": (_QWEN3_CODER,),
    "trinity": (_QWEN,),
}  # fmt: skip
"""Format → shapes. Formats that are missing are written in ways that grammars of JSON schemas can't follow
(Python calls, bare keys), or the framing is a whole answer's (gpt-oss)."""


def shape_of(tool_format: str | None, template: str) -> CallShape | None:
    """The shape for a format under a chat template; None where there is none."""
    shapes = SHAPES.get(tool_format or "", ())
    return next((shape for shape in shapes if shape.template in template), None)
