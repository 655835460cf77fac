"""Collects what the requests of a step have to report, as columns of one message."""

from __future__ import annotations

from sglang.ipc.messages import AbortReq, BatchTokenIDOutput, LogprobDelta, Message
from sglang.processes.scheduler.request import FinishReason, Request


class Outbox:
    """Outputs since the last :meth:`take`: one BatchTokenIDOutput for all requests, then single records."""

    def __init__(self) -> None:
        self._batch = _empty()
        self._logprobs: list[LogprobDelta | None] = []
        self._singles: list[Message] = []
        self._has_logprobs = False

    def report(self, request: Request) -> None:
        """The new tokens of a request, and how it ended if it did."""
        batch = self._batch
        new = request.output_ids[request.sent :]
        count = request.sent = request.sent + len(new)
        request.next_output = count + request.output_interval
        batch.rids.append(request.rid)
        batch.finished_reasons.append(request.finished)
        batch.output_ids.append(new)
        batch.prompt_tokens.append(len(request.prompt))
        batch.completion_tokens.append(count)
        batch.cached_tokens.append(request.cached_tokens or 0)
        batch.retraction_counts.append(request.retractions)
        self._logprobs.append(request.logprobs)
        if request.logprobs is not None:
            self._has_logprobs = True
            request.logprobs = LogprobDelta()
        if not request.opened:
            request.opened = True
            batch.opened.append(request.decode_spec())

    def drop(self, rid: str, reason: FinishReason) -> None:
        """A request that never ran ends here."""
        self.send(AbortReq(rid=rid, finished_reason=reason))

    def send(self, message: Message) -> None:
        self._singles.append(message)

    def take(self) -> list[Message]:
        messages = self._singles
        self._singles = []
        if self._batch.rids:
            if self._has_logprobs:
                self._batch.logprobs = self._logprobs
            messages.insert(0, self._batch)
            self._batch = _empty()
            self._logprobs = []
            self._has_logprobs = False
        return messages


def _empty() -> BatchTokenIDOutput:
    return BatchTokenIDOutput(
        rids=[],
        finished_reasons=[],
        output_ids=[],
        prompt_tokens=[],
        completion_tokens=[],
        cached_tokens=[],
        retraction_counts=[],
        opened=[],
    )
