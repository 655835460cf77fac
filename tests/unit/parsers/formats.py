"""Answers with tool calls, written the way each format's models write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Call = tuple[str, dict[str, Any]]
Render = Callable[[list[Call]], str]

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "f",
            "parameters": {
                "type": "object",
                "properties": {
                    "s": {"type": "string"},
                    "n": {"type": "integer"},
                    "x": {"type": "number"},
                    "b": {"type": "boolean"},
                    "l": {"type": "array"},
                    "o": {"$ref": "#/$defs/o"},
                    "z": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                },
                "$defs": {"o": {"type": "object"}},
            },
        },
    },
    {"type": "function", "function": {"name": "g_2.h", "parameters": {"type": "object", "properties": {}}}},
]


def dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def raw(value: Any) -> str:
    """A value between tags."""
    return value if isinstance(value, str) else dumps(value)


def tags(arguments: dict[str, Any], form: str) -> str:
    return "".join(form.format(key=key, value=raw(value)) for key, value in arguments.items())


def json_object(name: str, arguments: dict[str, Any], key: str = "arguments") -> str:
    return dumps({"name": name, key: arguments})


def python_call(name: str, arguments: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def gemma_value(value: Any) -> str:
    if isinstance(value, str):
        return f'<|"|>{value}<|"|>'
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{gemma_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(gemma_value, value)) + "]"
    return dumps(value)


def qwen(calls: list[Call]) -> str:
    return "\n".join(f"<tool_call>\n{json_object(*call)}\n</tool_call>" for call in calls)


def deepseekv3(calls: list[Call]) -> str:
    inner = "\n".join(
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{dumps(arguments)}\n```<｜tool▁call▁end｜>"
        for name, arguments in calls
    )
    return f"<｜tool▁calls▁begin｜>{inner}<｜tool▁calls▁end｜>"


def deepseekv31(calls: list[Call]) -> str:
    inner = "".join(
        f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{dumps(arguments)}<｜tool▁call▁end｜>" for name, arguments in calls
    )
    return f"<｜tool▁calls▁begin｜>{inner}<｜tool▁calls▁end｜>"


def kimi_k2(calls: list[Call]) -> str:
    inner = "".join(
        f"<|tool_call_begin|>functions.{name}:{at}<|tool_call_argument_begin|>{dumps(arguments)}<|tool_call_end|>"
        for at, (name, arguments) in enumerate(calls)
    )
    return f"<|tool_calls_section_begin|>{inner}<|tool_calls_section_end|>"


def kimi_k3(calls: list[Call]) -> str:
    def argument(key: str, value: Any) -> str:
        kind = "string" if isinstance(value, str) else "object" if isinstance(value, dict) else "number"
        return f'<|open|>argument key="{key}" type="{kind}"<|sep|>{raw(value)}<|close|>argument<|sep|>'

    inner = "".join(
        f'<|open|>call tool="{name}" index="{at}"<|sep|>{"".join(argument(*item) for item in arguments.items())}'
        "<|close|>call<|sep|>"
        for at, (name, arguments) in enumerate(calls, 1)
    )
    return f"<|open|>tools<|sep|>{inner}<|close|>tools<|sep|><|close|>message<|sep|>"


def qwen3_coder(calls: list[Call]) -> str:
    form = "<parameter={key}>\n{value}\n</parameter>\n"
    return "\n".join(
        f"<tool_call>\n<function={name}>\n{tags(arguments, form)}</function>\n</tool_call>" for name, arguments in calls
    )


def glm45(calls: list[Call]) -> str:
    form = "<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n"
    return "\n".join(f"<tool_call>{name}\n{tags(arguments, form)}</tool_call>" for name, arguments in calls)


def glm47(calls: list[Call]) -> str:
    form = "<arg_key>{key}</arg_key><arg_value>{value}</arg_value>"
    return "".join(f"<tool_call>{name}{tags(arguments, form)}</tool_call>" for name, arguments in calls)


def hunyuan(calls: list[Call]) -> str:
    form = "<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n"
    inner = "\n".join(f"<tool_call>{name}<tool_sep>\n{tags(arguments, form)}</tool_call>" for name, arguments in calls)
    return f"<tool_calls>\n{inner}\n</tool_calls>"


def hunyuan_json(calls: list[Call]) -> str:
    return f"<tool_calls>[{', '.join(json_object(*call) for call in calls)}]</tool_calls>"


def step3(calls: list[Call]) -> str:
    form = '<steptml:parameter name="{key}">{value}</steptml:parameter>'
    inner = "".join(
        f'<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">{tags(arguments, form)}'
        "</steptml:invoke><｜tool_call_end｜>"
        for name, arguments in calls
    )
    return f"<｜tool_calls_begin｜>{inner}<｜tool_calls_end｜>"


def minimax_m2(calls: list[Call]) -> str:
    form = '<parameter name="{key}">{value}</parameter>\n'
    inner = "".join(f'<invoke name="{name}">\n{tags(arguments, form)}</invoke>\n' for name, arguments in calls)
    return f"<minimax:tool_call>\n{inner}</minimax:tool_call>"


def dsml(mark: str, calls: list[Call]) -> str:
    def one(key: str, value: Any) -> str:
        is_text = "true" if isinstance(value, str) else "false"
        return f'<{mark}parameter name="{key}" string="{is_text}">{raw(value)}</{mark}parameter>\n'

    inner = "".join(
        f'<{mark}invoke name="{name}">\n{"".join(one(*item) for item in arguments.items())}</{mark}invoke>\n'
        for name, arguments in calls
    )
    return f"<{mark}function_calls>\n{inner}</{mark}function_calls>"


def harmony(calls: list[Call]) -> str:
    head = "<|start|>assistant<|channel|>commentary to=functions."
    return "".join(f"{head}{name} <|constrain|>json<|message|>{dumps(arguments)}<|call|>" for name, arguments in calls)


def gemma4(calls: list[Call]) -> str:
    return "".join(f"<|tool_call>call:{name}{gemma_value(arguments)}<tool_call|>" for name, arguments in calls)


def interns1(calls: list[Call]) -> str:
    return "\n".join(f"<|action_start|> <|plugin|>\n{json_object(*c, 'parameters')}<|action_end|>" for c in calls)


def cohere(calls: list[Call]) -> str:
    inner = [
        dumps({"tool_call_id": str(at), "tool_name": name, "parameters": arguments})
        for at, (name, arguments) in enumerate(calls)
    ]
    listed = ",\n    ".join(inner)
    return f"<|START_ACTION|>[\n    {listed}\n]<|END_ACTION|>"


RENDERS: dict[str, tuple[str, Render]] = {
    "cohere_command4": ("cohere_command4", cohere),
    "deepseekv3": ("deepseekv3", deepseekv3),
    "deepseekv31": ("deepseekv31", deepseekv31),
    "deepseekv32": ("deepseekv32", lambda calls: dsml("｜DSML｜", calls)),
    "gemma4": ("gemma4", gemma4),
    "gigachat3": ("gigachat3", lambda calls: dsml("｜GCML｜", calls)),
    "glm45": ("glm45", glm45),
    "glm47": ("glm47", glm47),
    "gpt-oss": ("gpt-oss", harmony),
    "hermes": ("hermes", lambda calls: "".join(f"<tool_call>{json_object(*c)}</tool_call>" for c in calls)),
    "hunyuan": ("hunyuan", hunyuan),
    "hunyuan_json": ("hunyuan", hunyuan_json),
    "interns1": ("interns1", interns1),
    "kimi_k2": ("kimi_k2", kimi_k2),
    "kimi_k3": ("kimi_k3", kimi_k3),
    "lfm2": (
        "lfm2",
        lambda calls: f"<|tool_call_start|>[{', '.join(python_call(*call) for call in calls)}]<|tool_call_end|>",
    ),
    "lfm2_json": (
        "lfm2",
        lambda calls: f"<|tool_call_start|>[{', '.join(json_object(*call) for call in calls)}]<|tool_call_end|>",
    ),
    "llama3": ("llama3", lambda calls: "<|python_tag|>" + "; ".join(json_object(*c, "parameters") for c in calls)),
    "llama3_bare": ("llama3", lambda calls: "; ".join(json_object(*c, "parameters") for c in calls)),
    "minimax-m2": ("minimax-m2", minimax_m2),
    "mistral": ("mistral", lambda calls: f"[TOOL_CALLS] [{', '.join(json_object(*call) for call in calls)}]"),
    "mistral_args": (
        "mistral",
        lambda calls: "".join(f"[TOOL_CALLS]{name}[ARGS]{dumps(arguments)}" for name, arguments in calls),
    ),
    "pythonic": ("pythonic", lambda calls: f"[{', '.join(python_call(*call) for call in calls)}]"),
    "pythonic_tags": (
        "pythonic",
        lambda calls: f"<|python_start|>[{', '.join(python_call(*call) for call in calls)}]<|python_end|>",
    ),
    "qwen25": ("qwen25", qwen),
    "qwen3_coder": ("qwen3_coder", qwen3_coder),
    "step3": ("step3", step3),
}
"""Case → (parser, how calls are written)."""
