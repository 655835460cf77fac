"""Structural tags for calls, from the shape of a format: what follows a trigger, and what a forced answer is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from sglang.api.chat.call_shapes import CallShape
from sglang.api.chat.tagged_arguments import Node, free_text, is_listed, sequence, tagged_arguments

SpecialId = Callable[[str], int | None]
"""The id of a special token with exactly this text; None where there is none."""

_MARKER = re.compile(r"(<[|｜][^<>]*[|｜]>|｜\w+｜|\[[A-Z_]+\]|</?[a-z_:]+>|\{index\})")


@dataclass(frozen=True, slots=True)
class CallTarget:
    """A tool that may be called: its name, and the schema of its arguments (an object's)."""

    name: str
    schema: dict[str, Any]


class CallGrammar:
    """Writes one shape's grammars. Markers that are special tokens must come as those tokens, never spelled out.

    The methods raise :class:`NotWritable` where special tokens stand in the way.
    """

    def __init__(self, shape: CallShape, special_id: SpecialId) -> None:
        self._shape = shape
        self._special_id = special_id

    def forced(self, tools: Iterable[CallTarget], several: bool) -> Node:
        """One call, or several, and nothing else."""
        return sequence([*self._pieces(self._shape.section[0]), self._calls(tools, several), *self._section_end()])

    def triggered(self, tools: Iterable[CallTarget], several: bool) -> Node:
        """Any text; but once a call begins it is one of the tools, with arguments that its schema allows."""
        shape = self._shape
        if shape.section[0]:
            head, *rest = self._pieces(shape.section[0])
            tags = [_tag(head, [*rest, self._calls(tools, several), *self._section_end()])]
            triggers = [shape.section[0].strip()]
        else:
            tools = list(tools)
            tags = [self._call(tool) for tool in tools]
            triggers = list(dict.fromkeys(_filled(shape.trigger or _before_name(shape.begin), tool) for tool in tools))
        tree: Node = {"tags": tags, "at_least_one": False, "stop_after_first": not several}
        first = tags[0]["begin"]
        if isinstance(first, dict):
            return {"type": "token_triggered_tags", "trigger_tokens": [first["token"]], **tree}
        return {"type": "triggered_tags", "triggers": triggers, **tree}

    def _section_end(self) -> list[Node]:
        return self._pieces(self._shape.section[1])

    def _calls(self, tools: Iterable[CallTarget], several: bool) -> Node:
        return {
            "type": "tags_with_separator",
            "tags": [self._call(tool) for tool in tools],
            "separator": self._shape.separator,
            "at_least_one": True,
            "stop_after_first": not several,
        }

    def _call(self, tool: CallTarget) -> Node:
        head, *rest = self._pieces(_filled(self._shape.begin, tool))
        return _tag(head, [*rest, *self._arguments_and_end(tool)])

    def _arguments_and_end(self, tool: CallTarget) -> list[Node]:
        tagged, end = self._shape.tagged, self._pieces(self._shape.end)
        if tagged is None:
            return [{"type": "json_schema", "json_schema": tool.schema}, *end]
        if not is_listed(tool.schema):
            return free_text(end)
        return [*tagged_arguments(tagged, tool.schema, self._pieces), *end]

    def _pieces(self, text: str) -> list[Node]:
        """The text as constants and tokens."""
        nodes: list[Node] = []
        for part in _MARKER.split(text):
            number = self._special_id(part) if part else None
            if part == "{index}":
                nodes.append({"type": "regex", "pattern": "[0-9]{1,3}"})
            elif number is not None:
                nodes.append({"type": "token", "token": number})
            elif part and nodes and nodes[-1]["type"] == "const_string":
                nodes[-1]["value"] += part
            elif part:
                nodes.append({"type": "const_string", "value": part})
        return nodes


def _filled(text: str, tool: CallTarget) -> str:
    return text.replace("{name}", tool.name).replace("{quoted}", json.dumps(tool.name, ensure_ascii=False))


def _before_name(begin: str) -> str:
    return re.split(r"\{name\}|\{quoted\}", begin)[0].rstrip()


def _tag(head: Node, nodes: list[Node]) -> Node:
    """A tag of a first piece and what follows; the last piece becomes its end where it can be one."""
    end: str | Node = ""
    if len(nodes) > 1 and nodes[-1]["type"] in ("const_string", "token"):
        end = _marker(nodes[-1])
        nodes = nodes[:-1]
    return {"type": "tag", "begin": _marker(head), "content": sequence(nodes), "end": end}


def _marker(node: Node) -> str | Node:
    return str(node["value"]) if node["type"] == "const_string" else node
