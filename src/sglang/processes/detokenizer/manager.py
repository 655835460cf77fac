"""Token ids to text, request by request: incremental decoding, then stop trimming."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Any

from sglang.ipc.messages import BatchStrOutput, BatchTokenIDOutput, DecodeSpec
from sglang.text.incremental import IncrementalDecoder
from sglang.text.stop import StopTrimmer
from sglang.text.tokenizer import Tokenizer

logger = logging.getLogger(__name__)


class _State:
    """The text of one request that is still growing."""

    def __init__(self, tokenizer: Tokenizer, spec: DecodeSpec) -> None:
        self._keeps_stop_token = spec.no_stop_trim
        self._decoder = IncrementalDecoder(
            tokenizer, spec.skip_special_tokens, spec.spaces_between_special_tokens, continues=True
        )
        self._trimmer = StopTrimmer(spec.stop, spec.no_stop_trim)
        self._stops = frozenset(spec.stop)

    def push(self, ids: list[int]) -> str:
        return self._trimmer.push(self._decoder.push(ids))

    def finish(self, ids: list[int], reason: dict[str, Any]) -> str:
        """The last piece. A matched stop token is not text (unless asked for), nor is what follows a stop string."""
        matched = reason.get("matched")
        if isinstance(matched, int) and ids and ids[-1] == matched and not self._keeps_stop_token:
            ids = ids[:-1]
        text = self._trimmer.push(self._decoder.push(ids))
        text += self._trimmer.push(self._decoder.flush())
        # A pattern of stop_regex is reported as matched too, but the text is kept as it is.
        return text + self._trimmer.finish(matched if matched in self._stops else None)


class DetokenizerManager:
    """Holds one state per running request, at most ``max_states`` (the oldest gives way)."""

    def __init__(self, tokenizer: Tokenizer, max_states: int = 65536) -> None:
        self._tokenizer = tokenizer
        self._max_states = max_states
        self._states: OrderedDict[str, _State] = OrderedDict()

    def __len__(self) -> int:
        """Requests whose text is growing."""
        return len(self._states)

    def convert(self, batch: BatchTokenIDOutput) -> BatchStrOutput:
        """The same outputs with their new text."""
        for spec in batch.opened:
            self._open(spec)
        return BatchStrOutput(
            rids=batch.rids,
            finished_reasons=batch.finished_reasons,
            output_strs=[
                self._text(rid, ids, reason)
                for rid, ids, reason in zip(batch.rids, batch.output_ids, batch.finished_reasons, strict=True)
            ],
            output_ids=batch.output_ids,
            prompt_tokens=batch.prompt_tokens,
            completion_tokens=batch.completion_tokens,
            cached_tokens=batch.cached_tokens,
            retraction_counts=batch.retraction_counts,
            logprobs=batch.logprobs,
        )

    def _open(self, spec: DecodeSpec) -> _State:
        state = _State(self._tokenizer, spec)
        self._states[spec.rid] = state
        if len(self._states) > self._max_states:
            rid, _ = self._states.popitem(last=False)
            logger.error("more than %d requests at once: the text of %s may break", self._max_states, rid)
        return state

    def _text(self, rid: str, ids: list[int], reason: dict[str, Any] | None) -> str:
        state = self._states.get(rid)
        if state is None:
            logger.error("request %s has no decoding state; decoding from here on with defaults", rid)
            state = self._open(DecodeSpec(rid=rid))
        if reason is None:
            return state.push(ids)
        del self._states[rid]
        return state.finish(ids, reason)
