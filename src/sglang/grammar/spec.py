"""What a request wants its output to match, and the checks that need no compiler."""

from __future__ import annotations

import json
import re

import msgspec

from sglang.ipc.errors import InvalidRequest
from sglang.ipc.sampling_params import GRAMMAR_KINDS, SamplingParams

BACKENDS = ("xgrammar", "llguidance")

MAX_BYTES = {"json_schema": 256 << 10, "regex": 16 << 10, "ebnf": 128 << 10, "structural_tag": 256 << 10}
"""Longest text of each kind, in UTF-8 bytes."""
MAX_CHOICES = 1024
MAX_CHOICE_BYTES = 64 << 10
"""All choices together."""
MAX_NESTING = 64
"""Levels of brackets in a JSON text."""

ANY_JSON = "$$ANY$$"
"""``json_schema`` value that stands for any JSON value."""

_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)
_REGEX_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}/]")


class GrammarError(InvalidRequest):
    """A grammar that can't be used; ``field`` is the sampling parameter that brought it."""


class GrammarSpec(msgspec.Struct, frozen=True):
    """One grammar: its kind and its text. Equal specs compile to equal grammars, so this is also the cache key."""

    kind: str
    text: str


class GrammarOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How JSON may be spaced."""

    any_whitespace: bool = True
    """False: compact JSON only."""
    max_whitespace: int = 16
    """White space characters in a row, so that a model can't go on with blanks for ever."""
    whitespace_pattern: str | None = None
    """A regex for that white space instead (llguidance only)."""


def spec_of(params: SamplingParams) -> GrammarSpec | None:
    """The grammar of checked sampling parameters; None where there is none."""
    for kind in GRAMMAR_KINDS:
        text = getattr(params, kind)
        if text:
            return GrammarSpec(kind, text)
    if params.choice:
        return GrammarSpec("choice", json.dumps(params.choice, ensure_ascii=False))
    return None


def check_choices(choices: list[str]) -> None:
    """Raise :class:`GrammarError` for a list that can't be served."""
    if len(choices) > MAX_CHOICES:
        raise GrammarError(f"choice: {len(choices)} choices are too many; at most {MAX_CHOICES} are allowed", "choice")
    if any(not choice for choice in choices):
        raise GrammarError('choice: holds an empty text ""; every choice needs at least one character', "choice")
    size = sum(len(choice.encode()) for choice in choices)
    if size > MAX_CHOICE_BYTES:
        raise GrammarError(f"choice: {size} bytes together are too many; at most {MAX_CHOICE_BYTES}", "choice")


def check_size(spec: GrammarSpec) -> None:
    """Raise :class:`GrammarError` for a text that is too long."""
    limit = MAX_BYTES.get(spec.kind)
    size = len(spec.text.encode())
    if limit is not None and size > limit:
        raise GrammarError(f"{spec.kind}: {size} bytes are too many; at most {limit} are allowed", spec.kind)


def parse_json(text: str, kind: str) -> object:
    """The value in a JSON text of a request. Raises :class:`GrammarError` saying where it is wrong."""
    depth = deepest = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[0], 0)
        deepest = max(deepest, depth)
    if deepest > MAX_NESTING:
        raise GrammarError(f"{kind}: {deepest} levels of nesting are too many; at most {MAX_NESTING}", kind)
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise GrammarError(f"{kind}: is not valid JSON ({error})", kind) from None


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON value")


def choice_regex(choices: list[str]) -> str:
    """A regex that matches exactly these texts."""
    return "|".join(_REGEX_SPECIAL.sub(r"\\\g<0>", choice) for choice in dict.fromkeys(choices))
