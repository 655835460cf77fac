"""Prompt templates in the form that Ollama's requests may bring: text with ``{{ .Prompt }}`` and simple conditions.

Of Go's template language this is what one-turn prompts use: the variables below, ``if``, ``else``, ``else if``,
``end``, ``not``, comments, and ``{{-`` / ``-}}``, which take away the white space beside them. There are no loops and
no functions, so the result is never longer than the template and its values allow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sglang.ipc.errors import InvalidRequest

VARIABLES = ("System", "Prompt", "Suffix", "Response")
MAX_CHARS = 100_000
MAX_DEPTH = 32

_TAG = re.compile(r"\{\{(-?)(.*?)(-?)\}\}", re.DOTALL)
_CONDITION = re.compile(r"(not\s+)?\.(\w+)")


class _Stop(Exception):
    """The place where the answer begins: nothing behind it belongs to the prompt."""


@dataclass
class _Block:
    """One ``if``: whether its present branch is written, and whether any branch has been."""

    outer: bool
    active: bool
    done: bool
    closed: bool = field(default=False)
    """``else`` without a condition was seen."""


def fill(template: str, values: Mapping[str, str]) -> str:
    """The prompt text. Raises InvalidRequest for anything outside the form above."""
    if len(template) > MAX_CHARS:
        raise _wrong(f"has {len(template)} characters; at most {MAX_CHARS} are allowed")
    writer = _Writer(values)
    try:
        for kind, text in _pieces(template):
            (writer.text if kind == "text" else writer.tag)(text)
    except _Stop:
        return "".join(writer.out)
    if writer.blocks:
        raise _wrong("an {{ if }} has no {{ end }}")
    return "".join(writer.out)


def names(template: str, variable: str) -> bool:
    """Whether a template mentions a variable."""
    return any(kind == "tag" and f".{variable}" in text for kind, text in _pieces(template))


def _pieces(template: str) -> Iterator[tuple[str, str]]:
    """Texts and the insides of tags, in order; white space that a tag takes away is gone."""
    at, trim = 0, False
    for match in _TAG.finditer(template):
        text = template[at : match.start()]
        text = text.lstrip() if trim else text
        yield "text", text.rstrip() if match[1] else text
        yield "tag", match[2].strip()
        at, trim = match.end(), bool(match[3])
    rest = template[at:]
    if "{{" in rest:
        raise _wrong("a {{ is not closed")
    yield "text", rest.lstrip() if trim else rest


class _Writer:
    def __init__(self, values: Mapping[str, str]) -> None:
        self.out: list[str] = []
        self.blocks: list[_Block] = []
        self._values = values

    @property
    def _active(self) -> bool:
        return self.blocks[-1].active if self.blocks else True

    def text(self, text: str) -> None:
        if self._active:
            self.out.append(text)

    def tag(self, tag: str) -> None:
        word, _, rest = tag.partition(" ")
        if tag.startswith("/*"):
            return
        if word == "if":
            self._open(rest)
        elif word == "else":
            self._else(rest.strip())
        elif tag == "end":
            self._block("end")
            self.blocks.pop()
        elif tag.startswith("."):
            self._variable(tag[1:])
        else:
            raise _wrong(f"{{{{ {tag[:40]} }}}} is not supported")

    def _variable(self, name: str) -> None:
        value = self._value(name)
        if not self._active:
            return
        if name == "Response":
            raise _Stop
        self.out.append(value)

    def _value(self, name: str) -> str:
        if name not in VARIABLES:
            raise _wrong(f".{name[:40]} is not known")
        return self._values.get(name, "")

    def _holds(self, condition: str) -> bool:
        match = _CONDITION.fullmatch(condition.strip())
        if match is None:
            raise _wrong(f"the condition {condition[:40]!r} is not supported")
        return bool(self._value(match[2])) != bool(match[1])

    def _open(self, condition: str) -> None:
        if len(self.blocks) == MAX_DEPTH:
            raise _wrong(f"conditions are nested deeper than {MAX_DEPTH}")
        outer, holds = self._active, self._holds(condition)
        self.blocks.append(_Block(outer, outer and holds, holds))

    def _else(self, rest: str) -> None:
        block = self._block("else")
        if block.closed:
            raise _wrong("an {{ if }} has two {{ else }}")
        word, _, condition = rest.partition(" ")
        if rest and word != "if":
            raise _wrong(f"{{{{ else {rest[:40]} }}}} is not supported")
        holds = self._holds(condition) if rest else True
        block.closed = not rest
        block.active = block.outer and holds and not block.done
        block.done = block.done or holds

    def _block(self, tag: str) -> _Block:
        if not self.blocks:
            raise _wrong(f"an {{{{ {tag} }}}} has no {{{{ if }}}}")
        return self.blocks[-1]


def _wrong(what: str) -> InvalidRequest:
    variables = ", ".join(f".{name}" for name in VARIABLES)
    return InvalidRequest(f"template: {what}; accepted: text, {variables}, if, else, end, not", "template")
