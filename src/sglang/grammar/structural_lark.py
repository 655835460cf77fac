"""Writes a structural tag as a Lark grammar for llguidance."""

from __future__ import annotations

import json
from typing import Any

from sglang.grammar.json_schema import inspect_schema
from sglang.grammar.llguidance_schema import schema_for_llguidance
from sglang.grammar.spec import GrammarError, GrammarOptions
from sglang.grammar.structural_tag import KIND, Node

_TEXT = r"/(.|\n)*/"


class _Writer:
    """Collects rules; every method returns an expression."""

    def __init__(self, options: GrammarOptions) -> None:
        self.rules: list[str] = []
        self._options = options
        self._count = 0

    def rule(self, body: str, attribute: str = "") -> str:
        self._count += 1
        name = f"part_{self._count}"
        self.rules.append(f"{name}{attribute}: {body}")
        return name

    def format(self, node: Node, until: str | None = None) -> str:
        """``until``: the text that ends this part where it is free text; it is then part of the expression."""
        writer = getattr(self, f"_{node['type']}", None)
        if writer is None:
            text = f"{KIND}: the format {node['type']!r} can't be combined with the schemas in this request, or with "
            raise GrammarError(f"{text}--grammar-backend llguidance; use tag, triggered_tags, sequence or or", KIND)
        body: str = self._free_text(node, until) if node["type"] == "any_text" else writer(node)
        return body if until is None or node["type"] == "any_text" else f"{body} {_text(until)}"

    def _free_text(self, node: Node, until: str | None) -> str:
        if node.get("excludes") or node.get("max_tokens") is not None or node.get("max_chars") is not None:
            raise GrammarError(f"{KIND}: limits of any_text can't be combined with the schemas in this request", KIND)
        return self.rule(f"{_TEXT} {_text(until)}", "[lazy]") if until else self.rule(_TEXT)

    _any_text = _free_text

    def _const_string(self, node: Node) -> str:
        return _text(_string(node, "value"))

    def _regex(self, node: Node) -> str:
        return self.rule("/" + _string(node, "pattern").replace("/", r"\/") + "/")

    def _json_schema(self, node: Node) -> str:
        if node.get("style", "json") != "json":
            raise GrammarError(f"{KIND}: style {node['style']!r} can't be combined with the rules of this schema", KIND)
        schema = schema_for_llguidance(inspect_schema(node["json_schema"], KIND), self._options)
        return self.rule("%json " + json.dumps(schema, ensure_ascii=False))

    def _sequence(self, node: Node) -> str:
        parts = node["elements"]
        done: list[str] = []
        index = 0
        while index < len(parts):  # free text must know what ends it
            following = parts[index + 1] if index + 1 < len(parts) else None
            if parts[index]["type"] == "any_text" and following is not None and following["type"] == "const_string":
                done.append(self.format(parts[index], _string(following, "value")))
                index += 1
            else:
                done.append(self.format(parts[index]))
            index += 1
        return self.rule(" ".join(done) or '""')

    def _or(self, node: Node) -> str:
        return self.rule(" | ".join(self.format(part) for part in node["elements"]))

    def _tag(self, node: Node, skip: str = "") -> str:
        """``skip``: what of the beginning has been written already."""
        begin = (
            _marker(node["begin"]) if isinstance(node["begin"], dict) else _text(_string(node, "begin")[len(skip) :])
        )
        if isinstance(node["end"], dict):
            return self.rule(f"{begin} {self.format(node['content'])} {_marker(node['end'])}")
        ends = node["end"] if isinstance(node["end"], list) else [_string(node, "end")]
        options = [self.format(node["content"], end or None) for end in ends]
        return self.rule(f"{begin} ({' | '.join(options)})")

    def _triggered_tags(self, node: Node) -> str:
        tags = self.rule(" | ".join(self._triggered(trigger, node["tags"]) for trigger in node["triggers"]))
        if node.get("excludes"):
            raise GrammarError(f"{KIND}: excludes can't be combined with the schemas in this request", KIND)
        if node.get("stop_after_first"):
            return tags if node.get("at_least_one") else self.rule(f"{tags} | {self.rule(_TEXT)}")
        return self.rule(f"{tags}{'+' if node.get('at_least_one') else '*'} {self.rule(_TEXT)}")

    def _token(self, node: Node) -> str:
        return _marker(node)

    def _token_triggered_tags(self, node: Node) -> str:
        """Special tokens are never part of the free text, so they end it."""
        if node.get("exclude_tokens"):
            raise GrammarError(f"{KIND}: exclude_tokens can't be combined with the schemas in this request", KIND)
        tags = self.rule(" | ".join(self._tag(tag) for tag in node["tags"]))
        part = self.rule(f"{self.rule(_TEXT)} {tags}")
        if node.get("stop_after_first"):
            return part if node.get("at_least_one") else self.rule(f"{part} | {self.rule(_TEXT)}")
        return self.rule(f"{part}{'+' if node.get('at_least_one') else '*'} {self.rule(_TEXT)}")

    def _triggered(self, trigger: str, tags: list[Node]) -> str:
        mine = [tag for tag in tags if _string(tag, "begin").startswith(trigger)]
        if not mine:
            raise GrammarError(f"{KIND}: no tag begins with the trigger {trigger[:64]!r}", KIND)
        head = self.rule(f"{_TEXT} {_text(trigger)}", "[lazy]")
        return self.rule(f"{head} ({' | '.join(self._tag(tag, skip=trigger) for tag in mine)})")

    def _tags_with_separator(self, node: Node) -> str:
        tag = self.rule(" | ".join(self._tag(item) for item in node["tags"]))
        more = "" if node.get("stop_after_first") else f" ({_text(_string(node, 'separator'))} {tag})*"
        return self.rule(f"{tag}{more}" if node.get("at_least_one") else f"({tag}{more})?")

    def _optional(self, node: Node) -> str:
        return self.rule(f"({self.format(node['content'])})?")

    def _plus(self, node: Node) -> str:
        return self.rule(f"({self.format(node['content'])})+")

    def _star(self, node: Node) -> str:
        return self.rule(f"({self.format(node['content'])})*")


def structural_lark(tree: Node, options: GrammarOptions) -> str:
    """A Lark grammar for a checked tree. Raises :class:`GrammarError` for formats that can't be written in it."""
    writer = _Writer(options)
    try:
        start = writer.format(tree)
    except (KeyError, TypeError, AttributeError) as error:
        raise GrammarError(f"{KIND}: a format lacks a field or has one of the wrong type ({error})", KIND) from None
    return "\n".join(["%llguidance {}", f"start: {start}", *writer.rules])


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False) if value else '""'


def _marker(node: Node) -> str:
    """A token by its number."""
    number = node.get("token")
    if node.get("type") != "token" or not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise GrammarError(f"{KIND}: token must be the number of a token here, got {str(number)[:64]!r}", KIND)
    return f"<[{number}]>"


def _string(node: Node, name: str) -> str:
    value: Any = node[name]
    if not isinstance(value, str):
        raise GrammarError(f"{KIND}: {name} must be a text here, got {type(value).__name__}", KIND)
    return value
