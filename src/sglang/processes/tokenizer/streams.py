"""What a caller holds after submitting: one group a request, one stream an output sequence.

A stream gathers everything that came back for one (prompt, sample); a group hands its news to the one consumer.
News that the consumer has not taken yet is merged, so a slow reader costs no memory beyond the answer itself.
All of this lives in one event loop; nothing here is thread-safe.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any

from sglang.ipc.errors import InvalidRequest, RequestAborted
from sglang.ipc.messages import LogprobDelta
from sglang.processes.tokenizer.render import StreamOptions, logprob_fields

FinishReason = dict[str, Any]

LOGPROB_LISTS = LogprobDelta.__struct_fields__


@dataclass(slots=True)
class Chunk:
    """What is new in one stream since the consumer last looked. Owns its lists: merging extends them in place."""

    text: str = ""
    output_ids: list[int] = field(default_factory=list)
    logprobs: LogprobDelta | None = None
    finish_reason: FinishReason | None = None
    """Set on the last chunk of the stream."""

    def merge(self, newer: Chunk) -> None:
        self.text += newer.text
        self.output_ids += newer.output_ids
        if newer.logprobs is not None:
            self.logprobs = self.logprobs or LogprobDelta()
            extend_logprobs(self.logprobs, newer.logprobs)
        self.finish_reason = newer.finish_reason


def extend_logprobs(target: LogprobDelta, delta: LogprobDelta) -> None:
    for name in LOGPROB_LISTS:
        new = getattr(delta, name)
        if new:
            getattr(target, name).extend(new)


class RequestStream:
    """One output sequence and all that is known of it so far."""

    def __init__(self, options: StreamOptions, prompt_ids: list[int]) -> None:
        self.options = options
        self.index = options.index
        self.rid = options.rid
        self.prompt_ids = prompt_ids
        self.text = ""
        self.output_ids: list[int] = []
        self.logprobs = LogprobDelta()
        self.prompt_tokens = len(prompt_ids)
        self.completion_tokens = 0
        self.cached_tokens = 0
        self.retractions = 0
        self.finish_reason: FinishReason | None = None
        self.created = time.perf_counter()
        self.first_after: float | None = None
        """Seconds from the creation to the first arrival."""
        self.finished_after: float | None = None
        self.chunks_taken = 0
        self.last_chunk = Chunk()

    @property
    def is_finished(self) -> bool:
        return self.finish_reason is not None

    def absorb(self, chunk: Chunk) -> None:
        """Add what a chunk brings to the whole."""
        if self.first_after is None:
            self.first_after = time.perf_counter() - self.created
        self.text += chunk.text
        self.output_ids.extend(chunk.output_ids)
        if chunk.logprobs is not None:
            extend_logprobs(self.logprobs, chunk.logprobs)
        if chunk.finish_reason is not None:
            self.finish_reason = chunk.finish_reason
            self.finished_after = time.perf_counter() - self.created

    def raise_for_abort(self) -> None:
        """Raise if the system ended the request with an HTTP error status.

        400 → :class:`InvalidRequest`, any other 4xx/5xx → :class:`RequestAborted`. An abort that a caller asked for
        has no status and raises nothing.
        """
        reason = self.finish_reason
        if reason is None or reason.get("type") != "abort":
            return
        status = reason.get("status_code")
        if not isinstance(status, int) or not 400 <= status <= 599:
            return
        message = str(reason.get("message") or "the request was aborted")
        if status == 400:
            raise InvalidRequest(message)
        raise RequestAborted(message, status)

    def result(self, incremental: bool = False) -> dict[str, Any]:
        """The native result object: everything so far, or (``incremental``) what the last taken chunk brought.

        Input logprobs are always complete.
        """
        source = self.last_chunk if incremental else self
        result: dict[str, Any] = {}
        if self.options.has_text:
            result["text"] = source.text
        result["output_ids"] = list(source.output_ids)
        result["meta_info"] = self._meta_info(incremental)
        if self.options.return_prompt_token_ids:
            result["prompt_token_ids"] = list(self.prompt_ids)
        return result

    def _meta_info(self, incremental: bool) -> dict[str, Any]:
        version = self.options.weight_version
        info: dict[str, Any] = {
            "id": self.rid,
            "finish_reason": self.finish_reason,
            "prompt_tokens": self.prompt_tokens,
            "weight_version": version,
            "num_retractions": self.retractions,
        }
        if self.options.return_logprob:
            outputs = (self.last_chunk.logprobs or LogprobDelta()) if incremental else self.logprobs
            info.update(logprob_fields(self.logprobs, outputs, self.options))
            info["output_token_logprobs_length"] = len(self.logprobs.output_val)
        info["reasoning_tokens"] = 0
        info["completion_tokens"] = self.completion_tokens
        info["cached_tokens"] = self.cached_tokens
        if self.is_finished:
            info["weight_versions"] = [{"version": version, "start": 0, "end": self.completion_tokens}]
        info["cached_tokens_details"] = {"device": self.cached_tokens, "host": 0} if self.cached_tokens else None
        info["dp_rank"] = None
        if self.is_finished:
            info["e2e_latency"] = self.finished_after
        if self.is_finished or self.chunks_taken <= 1:
            info["response_sent_to_client_ts"] = time.time()
        return info


class RequestGroup:
    """All streams of one submitted request, with one consumer."""

    def __init__(
        self,
        streams: list[RequestStream],
        is_batch: bool,
        send_abort: Callable[[RequestStream], None],
        abort_on_leave: bool = True,
    ) -> None:
        self.streams = streams
        self.is_batch = is_batch
        """Whether the native reply is a list."""
        self._send_abort = send_abort
        self._abort_on_leave = abort_on_leave
        self._open = len(streams)
        self._pending: dict[int, Chunk] = {}
        self._waiter: asyncio.Future[None] | None = None  # a bare future: an Event costs more for each token
        self._aborted = False

    @property
    def is_finished(self) -> bool:
        return self._open == 0

    def deliver(self, stream: RequestStream, chunk: Chunk) -> None:
        """Called by the manager with each arrival."""
        if stream.is_finished:
            return
        stream.absorb(chunk)
        if stream.is_finished:
            self._open -= 1
        waiting = self._pending.get(stream.index)
        if waiting is None:
            self._pending[stream.index] = chunk
        else:
            waiting.merge(chunk)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def events(self) -> AsyncGenerator[tuple[RequestStream, Chunk], None]:
        """News until all streams have finished. Leaving early (break, cancellation) aborts what still runs."""
        try:
            while True:
                while self._pending:
                    index = next(iter(self._pending))
                    stream, chunk = self.streams[index], self._pending.pop(index)
                    stream.chunks_taken += 1
                    stream.last_chunk = chunk
                    yield stream, chunk
                if self.is_finished:
                    return
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter
        finally:
            if self._abort_on_leave:
                self.abort()

    async def wait(self) -> None:
        """Until all streams have finished; cancelling it aborts them."""
        async for _ in self.events():
            pass

    def abort(self) -> None:
        """Tell the scheduler at once to drop what still runs. The streams then finish with type ``abort``."""
        if self._aborted:
            return
        self._aborted = True
        for stream in self.streams:
            if not stream.is_finished:
                self._send_abort(stream)
