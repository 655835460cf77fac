"""Grammars through llguidance."""

from __future__ import annotations

import json
import re
from typing import Any

import llguidance
from llguidance.gbnf_to_lark import any_to_lark

from sglang.grammar.backend import Compiled, MaskRow, Matcher
from sglang.grammar.json_schema import SchemaReport, read_schema
from sglang.grammar.llguidance_schema import schema_for_llguidance
from sglang.grammar.spec import ANY_JSON, GrammarError, GrammarOptions, GrammarSpec, parse_json
from sglang.grammar.structural_lark import structural_lark
from sglang.grammar.structural_tag import read_structural_tag
from sglang.grammar.vocabulary import Vocabulary

ACCEPTED = (
    "type, enum, const, properties, required, additionalProperties, patternProperties, items, prefixItems, minItems, "
    "maxItems, minLength, maxLength, pattern, format, minimum, maximum, exclusiveMinimum, exclusiveMaximum, "
    "multipleOf, anyOf, allOf, oneOf, $ref, $defs"
)
"""Keywords that outputs are held to."""


class _Tokens:
    """What llguidance asks of a tokenizer.

    Where the grammar leaves one text only, llguidance allows one way of writing it in tokens: the way this encodes it.
    The longest token that fits comes first; that needs no merges, and always gives exactly these bytes.
    """

    bos_token_id = None

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.tokens = vocabulary.tokens
        self.special_token_ids = vocabulary.special_ids
        self.eos_token_id = vocabulary.eos_ids[0]
        self._ids = {token: number for number, token in reversed(list(enumerate(vocabulary.tokens))) if token}
        self._longest = max(map(len, self._ids), default=0)

    def __call__(self, text: str | bytes) -> list[int]:
        data = text.encode() if isinstance(text, str) else text
        found: list[int] = []
        start = 0
        while start < len(data):
            for end in range(min(len(data), start + self._longest), start, -1):
                number = self._ids.get(data[start:end])
                if number is not None:
                    found.append(number)
                    start = end
                    break
            else:
                break  # no token has this byte: what is encoded so far is all that can be written
        return found


class LLGuidanceBackend:
    """Implements :class:`sglang.grammar.backend.Backend`."""

    def __init__(self, vocabulary: Vocabulary, options: GrammarOptions) -> None:
        self._options = options
        wrapper = llguidance.TokenizerWrapper(_Tokens(vocabulary))
        self._tokenizer = llguidance.LLTokenizer(
            wrapper, n_vocab=len(vocabulary.tokens), eos_token=list(vocabulary.eos_ids)
        )
        self._limits = llguidance.LLParserLimits(verbose_errors=False)

    def compile(self, spec: GrammarSpec) -> Compiled:
        try:
            grammar, reports = self._grammar(spec)
            matcher = self._matcher(grammar)
        except GrammarError:
            raise
        except Exception as error:  # ValueError for JSON, and the classes of the EBNF reader
            raise GrammarError(f"{spec.kind}: {str(error).strip()[:1000]}", spec.kind) from None
        if matcher.is_error():
            text = self._wrong_place(reports, matcher.get_error()) or matcher.get_error().strip()
            raise GrammarError(f"{spec.kind}: {text[:1000]}", spec.kind)
        return _LLGuidance(matcher, len(grammar))

    def _matcher(self, grammar: str) -> Any:
        return llguidance.LLMatcher(self._tokenizer, grammar, log_level=0, limits=self._limits)

    def _grammar(self, spec: GrammarSpec) -> tuple[str, list[SchemaReport]]:
        """The grammar for the library, and what is in the schemas that it is made of."""
        make = llguidance.LLMatcher
        if spec.kind == "json_schema":
            reports = [] if spec.text == ANY_JSON else [read_schema(spec.text)]
            schema = schema_for_llguidance(reports[0], self._options) if reports else {}
            return make.grammar_from_json_schema(json.dumps(schema, ensure_ascii=False)), reports
        if spec.kind == "structural_tag":
            tag = read_structural_tag(spec.text)
            return make.grammar_from_lark(structural_lark(tag.format, self._options)), tag.reports
        if spec.kind == "regex":
            return make.grammar_from_regex(_unanchored(spec.text)), []
        if spec.kind == "choice":
            choices = parse_json(spec.text, spec.kind)
            assert isinstance(choices, list)
            return make.grammar_from_lark("start: " + " | ".join(json.dumps(choice) for choice in choices)), []
        return make.grammar_from_lark(any_to_lark(spec.text)), []

    def _wrong_place(self, reports: list[SchemaReport], error: str) -> str | None:
        """What is wrong, and where; the library's own message does not say."""
        if unknown := re.search(r"Unimplemented keys: (\[.*?\])", error):
            name = json.loads(unknown[1])[0]
            place = next((f"at {report.places[name]}: " for report in reports if name in report.places), "")
            return (
                f"{place}the keyword {name} can't be kept to and is not supported; leave it out (accepted: {ACCEPTED})"
            )
        if reports and "oneOf constraints" in error:
            place = next((report.places["oneOf"] for report in reports if "oneOf" in report.places), "#")
            return f"at {place}/oneOf: the alternatives overlap, which is not supported; make them differ, or use anyOf"
        for place, pattern in (entry for report in reports for entry in report.patterns):
            matcher = self._matcher(llguidance.LLMatcher.grammar_from_regex(_unanchored(pattern)))
            if matcher.is_error():
                return f"at {place}: the pattern can't be used: {_first_line(matcher.get_error())}"
        return None


class _LLGuidance:
    """Implements :class:`sglang.grammar.backend.Compiled`."""

    def __init__(self, matcher: Any, length: int) -> None:
        self._matcher = matcher
        self.size = (1 << 20) + 64 * length  # not told by the library

    def matcher(self) -> Matcher:
        return _LLGuidanceMatcher(self._matcher.deep_copy())


class _LLGuidanceMatcher:
    """Implements :class:`sglang.grammar.backend.Matcher`."""

    __slots__ = ("_address", "_mask", "_matcher")

    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher
        self._mask: MaskRow | None = None
        self._address = 0

    def accept(self, token: int) -> bool:
        return bool(self._matcher.consume_token(token))

    def fill(self, mask: MaskRow) -> None:
        matcher = self._matcher
        if mask is not self._mask:  # mostly it is: asking for its address takes as long as filling it
            self._mask, self._address = mask, mask.ctypes.data
        matcher.unsafe_compute_mask_ptr(self._address, mask.nbytes)
        if matcher.is_error():
            raise GrammarError(f"the grammar can't be followed further: {_first_line(matcher.get_error())}")


def _unanchored(pattern: str) -> str:
    """Without the anchors at both ends: a regex always is matched against the whole output."""
    if re.search(r"(?<!\\)\|", pattern):
        return pattern
    pattern = pattern.removeprefix("^")
    return pattern[:-1] if pattern.endswith("$") and not pattern.endswith(r"\$") else pattern


def _first_line(text: str) -> str:
    return " ".join(line.strip() for line in text.strip().splitlines() if line.strip())[:300]
