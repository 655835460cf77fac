"""Grammars through xgrammar."""

from __future__ import annotations

import re
from typing import Any

from sglang.grammar.backend import Compiled, MaskRow, Matcher
from sglang.grammar.blanks import MOST_COUNTED, BlankLimit, BlankTokens
from sglang.grammar.spec import ANY_JSON, GrammarError, GrammarOptions, GrammarSpec, choice_regex, parse_json
from sglang.grammar.structural_tag import read_structural_tag
from sglang.grammar.vocabulary import Vocabulary
from sglang.grammar.xgrammar_core import load_core

RAW = 0  # xgrammar's vocabulary type: tokens are given as the bytes they stand for

_ORIGIN = re.compile(r"^\[[\d:]+\] \S+?:\d+: ")


class XGrammarBackend:
    """Implements :class:`sglang.grammar.backend.Backend`."""

    def __init__(self, vocabulary: Vocabulary, options: GrammarOptions) -> None:
        core = load_core()
        self._core = core
        self._options = options
        self._eos_ids = list(vocabulary.eos_ids)
        self._tokens = vocabulary.tokens
        self._compiler = self._make_compiler(self._tokens)
        self._token_compiler: Any = None
        counts = options.any_whitespace and options.max_whitespace <= MOST_COUNTED
        self._blanks = BlankTokens(vocabulary, options.max_whitespace) if counts else None

    def _make_compiler(self, tokens: list[bytes]) -> Any:
        info = self._core.TokenizerInfo(tokens, RAW, len(tokens), self._eos_ids, False)
        # One thread: the others belong to the model. Our own cache comes before, so none here.
        return self._core.GrammarCompiler(info, 1, False, -1, False)

    def _compiler_of_tokens(self) -> Any:
        """A compiler whose grammars may name special tokens. Tokens without any bytes are never allowed, so here they
        have bytes that no text has."""
        if self._token_compiler is None:
            tokens = [token or b"\xff%d" % number for number, token in enumerate(self._tokens)]
            self._token_compiler = self._make_compiler(tokens)
        return self._token_compiler

    def compile(self, spec: GrammarSpec) -> Compiled:
        try:
            blanks = self._blanks if spec.kind == "json_schema" else None
            return _XGrammar(self._core, self._compile(spec), self._eos_ids, blanks)
        except GrammarError:
            raise
        except Exception as error:  # the library has classes of its own for each stage
            raise GrammarError(f"{spec.kind}: {readable(error)}", spec.kind) from None

    def _compile(self, spec: GrammarSpec) -> Any:
        compiler = self._compiler
        if spec.kind == "json_schema":
            schema = "{}" if spec.text == ANY_JSON else spec.text
            any_whitespace = self._options.any_whitespace
            separators = None if any_whitespace else (",", ":")
            return compiler.compile_json_schema(schema, any_whitespace, None, separators, True, None, False)
        if spec.kind == "regex":
            return compiler.compile_regex(spec.text)
        if spec.kind == "choice":
            return compiler.compile_regex(choice_regex(parse_json(spec.text, spec.kind)))  # type: ignore[arg-type]
        if spec.kind == "ebnf":
            return compiler.compile_grammar_from_strings(spec.text, "root")
        tag = read_structural_tag(spec.text)
        compiler = self._compiler_of_tokens() if tag.names_tokens else compiler
        return compiler.compile_structural_tag(tag.spaced(self._options.max_whitespace))


class _XGrammar:
    """Implements :class:`sglang.grammar.backend.Compiled`."""

    def __init__(self, core: Any, grammar: Any, eos_ids: list[int], blanks: BlankTokens | None) -> None:
        self._core = core
        self._grammar = grammar
        self._eos_ids = eos_ids
        self._blanks = blanks
        self.size = int(grammar.memory_size_bytes())

    def matcher(self) -> Matcher:
        matcher = _XGrammarMatcher(self._core.GrammarMatcher(self._grammar, self._eos_ids, False, -1, None))
        return matcher if self._blanks is None else BlankLimit(matcher, self._blanks)


class _XGrammarMatcher:
    """Implements :class:`sglang.grammar.backend.Matcher`."""

    __slots__ = ("_accept", "_fill")

    def __init__(self, matcher: Any) -> None:
        self._accept = matcher.accept_token
        self._fill = matcher.fill_next_token_bitmask

    def accept(self, token: int) -> bool:
        return bool(self._accept(token, False))

    def fill(self, mask: MaskRow) -> None:
        self._fill(mask, 0, False)


def readable(error: Exception) -> str:
    """The library's message without the place in its own source."""
    text = str(error).strip()
    return _ORIGIN.sub("", text)[:1000] or type(error).__name__
