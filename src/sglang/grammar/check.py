"""What can be said about a request's grammar before it travels: cheap, and without any library."""

from __future__ import annotations

from sglang.grammar.route import route
from sglang.grammar.spec import GrammarError, check_choices, check_size, spec_of
from sglang.ipc.sampling_params import SamplingParams


def check_grammar(params: SamplingParams, backend: str, has_tokenizer: bool = True) -> None:
    """Raise :class:`GrammarError` for a grammar that this server can't follow or that is plainly wrong."""
    spec = spec_of(params)
    if spec is None:
        return
    kind = spec.kind
    if backend == "none":
        text = f"{kind}: this server runs with --grammar-backend none; start it with xgrammar or llguidance"
        raise GrammarError(text, kind)
    if not has_tokenizer:
        raise GrammarError(f"{kind}: needs the tokenizer, but the server runs with --skip-tokenizer-init", kind)
    check_choices(params.choice)
    check_size(spec)
    route(spec, "xgrammar")  # whatever library it will be: this reads schemas and tags
