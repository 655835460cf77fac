"""Which library serves a grammar."""

from __future__ import annotations

from sglang.grammar.json_schema import read_schema
from sglang.grammar.spec import ANY_JSON, GrammarSpec
from sglang.grammar.structural_tag import read_structural_tag


def route(spec: GrammarSpec, preferred: str) -> str:
    """The library for a grammar: the preferred one, unless only the other keeps every rule of it.

    Raises :class:`GrammarError` where the grammar itself is wrong as far as can be seen without compiling it.
    """
    if preferred != "xgrammar":
        return preferred
    if spec.kind == "json_schema":
        return "xgrammar" if spec.text == ANY_JSON or read_schema(spec.text).exact else "llguidance"
    if spec.kind == "structural_tag":
        return "xgrammar" if read_structural_tag(spec.text).exact else "llguidance"
    return "xgrammar"
