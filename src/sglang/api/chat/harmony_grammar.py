"""The grammar of a whole gpt-oss answer whose calls are held to their schemas."""

from __future__ import annotations

from collections.abc import Iterable

from sglang.api.chat.call_grammar import CallTarget, SpecialId
from sglang.api.chat.tagged_arguments import Node, NotWritable, sequence
from sglang.parsers.harmony import CHANNEL, MESSAGE, START

CONSTRAIN = "<|constrain|>"
CHANNELS = ("analysis", "final", "commentary")


def harmony_calls(tools: Iterable[CallTarget], special_id: SpecialId) -> Node:
    """Messages on the known channels, and calls of ``tools`` as commentary to them.

    It holds from the first token on, the thinking included. Raises :class:`NotWritable` for other vocabularies.
    """
    numbers = [special_id(text) for text in (CHANNEL, MESSAGE, START, CONSTRAIN)]
    if None in numbers:
        raise NotWritable
    channel, message, start, constrain = ({"type": "token", "token": number} for number in numbers)
    headers: list[Node] = [sequence([_text(name), message]) for name in CHANNELS]
    for tool in tools:
        head = [_text(f"commentary to=functions.{tool.name} "), constrain, _text("json"), message]
        headers.append(sequence([*head, {"type": "json_schema", "json_schema": tool.schema}]))
    header: Node = {"type": "or", "elements": headers}
    return {
        "type": "token_triggered_tags",
        "trigger_tokens": [channel["token"], start["token"]],
        "tags": [
            {"type": "tag", "begin": channel, "content": header, "end": ""},
            {"type": "tag", "begin": start, "content": sequence([_text("assistant"), channel, header]), "end": ""},
        ],
        "at_least_one": False,
        "stop_after_first": False,
    }


def _text(value: str) -> Node:
    return {"type": "const_string", "value": value}
