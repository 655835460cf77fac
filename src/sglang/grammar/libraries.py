"""Loads grammar libraries."""

from __future__ import annotations

from sglang.grammar.backend import Backend
from sglang.grammar.spec import GrammarOptions
from sglang.grammar.vocabulary import Vocabulary


def make_backend(name: str, vocabulary: Vocabulary, options: GrammarOptions) -> Backend:
    """Loads the library ``name``."""
    # Each is imported here alone: nobody should pay for the one that isn't used.
    if name == "xgrammar":
        from sglang.grammar.xgrammar_backend import XGrammarBackend

        return XGrammarBackend(vocabulary, options)
    from sglang.grammar.llguidance_backend import LLGuidanceBackend

    return LLGuidanceBackend(vocabulary, options)
