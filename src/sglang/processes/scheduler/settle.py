"""Turns the result of a step into tokens, finished requests and outputs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sglang.executor.batch import StepResult, TokenLogprobs
from sglang.processes.scheduler.admit import Piece, scored_targets
from sglang.processes.scheduler.decoding import RunningSet
from sglang.processes.scheduler.grammar import follow
from sglang.processes.scheduler.memory import KVMemory
from sglang.processes.scheduler.outputs import Outbox
from sglang.processes.scheduler.request import Request, abort_reason, mistake

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Flight:
    """The step that is being computed: prefill rows first, then one row for every running request if ``decodes``."""

    pieces: list[Piece] = field(default_factory=list)
    decodes: bool = False
    started_at: float = 0.0


class Settlement:
    """Applies results. ``forget`` is told of every request that ended and holds nothing any more."""

    def __init__(
        self, memory: KVMemory, running: RunningSet, outbox: Outbox, forget: Callable[[Request], None]
    ) -> None:
        self._memory = memory
        self._running = running
        self._outbox = outbox
        self._forget = forget

    def apply(self, flight: Flight, result: StepResult, failed: Mapping[int, str]) -> Request | None:
        """Settle a step; rows in ``failed`` end with an error. Returns the chunked request if it ended here."""
        newcomers: list[Request] = []
        ended_chunk: Request | None = None
        sampled = scored = 0
        for row, piece in enumerate(flight.pieces):
            request = piece.request
            entries = None
            if scored_targets(piece):
                entries = result.prompt_logprobs[scored]
                scored += 1
            takes_sample = piece.is_last and request.needs_sample
            self._settle_piece(piece, entries, result, sampled if takes_sample else None, failed.get(row))
            sampled += takes_sample
            if request.finished is not None:
                ended_chunk = ended_chunk if piece.is_last else request
                self.end(request, share=row not in failed)
            elif piece.is_last:
                newcomers.append(request)
        if flight.decodes:
            self._settle_decodes(result, sampled, failed, len(flight.pieces))
        for request in newcomers:
            self._running.add(request)
        return ended_chunk

    def end(self, request: Request, share: bool = True) -> None:
        """Report the last output of a request that holds memory, and free it."""
        self._outbox.report(request)
        self._memory.close(request, share)
        self._forget(request)

    # -------------------------------------------------------------- prefill

    def _settle_piece(
        self,
        piece: Piece,
        entries: list[TokenLogprobs] | None,
        result: StepResult,
        sample: int | None,
        failure: str | None,
    ) -> None:
        request = piece.request
        if failure is not None:
            request.finished = _failure(failure)
            return
        request.kv_len = piece.end
        self._memory.commit(request)
        if entries is not None:
            request.add_prompt_logprobs(entries)
        if not piece.is_last:
            request.finished = request.abort
            return
        request.close_prompt_logprobs()
        if sample is not None:
            self._append(request, result, sample)
        if request.max_new_tokens == 0:
            request.finished = request.abort or {"type": "length", "length": 0}
        if request.finished is None and len(request.output_ids) >= request.next_output:
            self._outbox.report(request)

    # -------------------------------------------------------------- decode

    def _settle_decodes(self, result: StepResult, first: int, failed: Mapping[int, str], first_row: int) -> None:
        """The hot path: a request that just goes on costs a few comparisons."""
        running = self._running
        requests = running.requests
        tokens = result.tokens[first:] if first else result.tokens
        running.advance(tokens)
        special = failed or result.invalid is not None or result.logprobs is not None
        finished: list[tuple[int, Request]] = []
        report = self._outbox.report
        for index, request in enumerate(requests):
            token = tokens[index]
            output_ids = request.output_ids
            if (
                special
                or request.watch is not None
                or request.grammar is not None
                or request.abort is not None
                or token in request.stop_set
            ):
                failure = failed.get(first_row + index)
                if failure is not None:
                    request.finished = _failure(failure)
                else:
                    count = len(output_ids)
                    self._append(request, result, first + index)
                    if len(output_ids) != count + 1 or output_ids[-1] != token:
                        running.renew(index)
            else:
                output_ids.append(token)
                if len(output_ids) >= request.max_new_tokens:
                    request.finished = {"type": "length", "length": request.max_new_tokens}
            if request.finished is not None:
                finished.append((index, request))
            elif len(output_ids) >= request.next_output:
                report(request)
        if finished:
            running.drop({request for _, request in finished}, self._memory)
            for index, request in finished:
                self.end(request, share=first_row + index not in failed)

    def _append(self, request: Request, result: StepResult, sample: int) -> None:
        """Add a sampled token and see whether the request ends with it. What goes wrong here concerns it alone."""
        token = result.tokens[sample]
        invalid = result.invalid is not None and result.invalid[sample]
        if invalid and request.sample.stop_ids:
            token = min(request.sample.stop_ids)  # the text ends as if the model had stopped by itself
        if result.logprobs is not None and (entry := result.logprobs[sample]) is not None:
            request.add_output_logprob(token, entry)
        if request.max_new_tokens == 0:
            return
        try:
            self._take(request, token, invalid)
        except Exception as error:
            logger.exception("request %s failed while its new token was looked at", request.rid)
            request.finished = _failure(mistake(error))

    def _take(self, request: Request, token: int, invalid: bool) -> None:
        """Add a token, and those that a grammar leaves no choice about: they need no step of their own. With logprobs
        each gets its step, because their entries come from it."""
        next_token: int | None = token
        while next_token is not None:
            request.output_ids.append(next_token)
            request.check_finished(next_token, invalid)
            grammar = request.grammar
            if grammar is None or request.finished is not None:
                return
            follow(request)
            may_jump = request.finished is None and request.logprobs is None
            next_token = grammar.forced if may_jump else None


def _failure(message: str) -> dict[str, object]:
    return abort_reason(message, 500, "InternalServerError")
