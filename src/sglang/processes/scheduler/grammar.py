"""Requests whose grammar is being compiled, and what a grammar does to a request that runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import Future

from sglang.grammar.backend import Compiled
from sglang.grammar.compiler import GrammarSource
from sglang.grammar.spec import GrammarError, GrammarSpec, spec_of
from sglang.grammar.state import GrammarState
from sglang.processes.scheduler.config import SchedulerConfig
from sglang.processes.scheduler.request import FinishReason, Request, abort_reason, mistake

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.002
"""How often an idle scheduler looks whether a grammar is ready."""


class GrammarQueue:
    """Holds requests until their grammar is compiled; the others go on meanwhile."""

    def __init__(self, config: SchedulerConfig, source: GrammarSource | None) -> None:
        self._config = config
        self._source = source
        self._waiting: dict[Request, Future[Compiled]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._waiting)

    def __contains__(self, request: Request) -> bool:
        return request in self._waiting

    def hold(self, request: Request) -> bool:
        """Whether the request must wait here. One without a grammar never does, one with a known grammar is ready.

        Raises :class:`GrammarError` for a grammar that is known to be wrong.
        """
        spec = spec_of(request.params)
        if spec is None or request.max_new_tokens == 0:
            return False
        if self._source is None:
            raise GrammarError(f"{spec.kind}: this server can't follow grammars (--grammar-backend)", spec.kind)
        future = self._source.get(spec)
        if not future.done():
            self._waiting[request] = future
            return True
        self._open(request, spec, future)
        return False

    def ready(self) -> list[tuple[Request, FinishReason | None]]:
        """Take out the requests whose grammar is decided, each with the reason if it was refused."""
        decided = [request for request, future in self._waiting.items() if future.done()]
        return [(request, self._try_open(request, self._waiting.pop(request))) for request in decided]

    def remove(self, request: Request) -> None:
        del self._waiting[request]

    def _try_open(self, request: Request, future: Future[Compiled]) -> FinishReason | None:
        spec = spec_of(request.params)
        assert spec is not None
        try:
            self._open(request, spec, future)
        except GrammarError as error:
            return refusal(error)
        except Exception as error:  # a mistake of ours: it ends this request and nothing else
            logger.exception("request %s: its grammar could not be prepared", request.rid)
            return abort_reason(mistake(error), 500, "InternalServerError")
        return None

    def _open(self, request: Request, spec: GrammarSpec, future: Future[Compiled]) -> None:
        config, params = self._config, request.params
        assert self._source is not None
        if not config.eos_token_ids:
            raise GrammarError(f"{spec.kind}: the model has no end token, which a grammar needs", spec.kind)
        request.grammar = GrammarState(
            future.result(),
            self._source.vocab_size,
            config.eos_token_ids,
            request.sample.stop_ids,
            ignore_eos=params.ignore_eos,
            min_new_tokens=params.min_new_tokens,
            think_end_ids=request.spec.think_end_ids,
        )
        show_mask(request)


def show_mask(request: Request) -> None:
    """Let the sampler see the mask, from the moment on that there is one."""
    grammar = request.grammar
    assert grammar is not None
    request.sample.mask = grammar.mask if grammar.is_active else None


def follow(request: Request) -> None:
    """Move the grammar over the newest token; end the request where the grammar ends or can't be followed."""
    grammar = request.grammar
    assert grammar is not None
    try:
        grammar.advance(request.output_ids)
    except GrammarError as error:
        request.finished = refusal(error)
        return
    if grammar.done:
        request.finished = {"type": "stop", "matched": request.output_ids[-1]}
    elif request.sample.mask is None:
        show_mask(request)


def refusal(error: GrammarError) -> FinishReason:
    return abort_reason(str(error), 400, "BadRequestError")
