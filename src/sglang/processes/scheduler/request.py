"""A request's life: its tokens, what it holds, how far it got, and when it stops."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

import msgspec
import numpy as np

from sglang.cache.prefix import Namespace, Node, TokenArray
from sglang.executor.batch import SampleRow, TokenLogprobs
from sglang.grammar.state import GrammarState
from sglang.ipc.messages import DecodeSpec, LogprobDelta, TokenizedGenerateReqInput
from sglang.processes.scheduler.config import SchedulerConfig

LOWEST_PRIORITY = -sys.maxsize
FinishReason = dict[str, Any]


class TextWatch(Protocol):
    """Decodes one request's tokens and looks for its stop strings and patterns."""

    def push(self, token_ids: list[int]) -> str | None:
        """Add tokens; the stop string or pattern that the text now contains, else None."""
        ...


TextWatchFactory = Callable[[DecodeSpec], TextWatch]


class Request:
    """One prompt and the tokens generated for it.

    ``kv_len`` positions are computed. Slots are held for the first ``capacity`` positions (whole pages): those below
    ``tree_len`` belong to the prefix cache and are locked through ``node``, the rest are private.
    """

    __slots__ = (
        "abort",
        "cached_tokens",
        "capacity",
        "deferrals",
        "enqueued_at",
        "finished",
        "grammar",
        "kv_len",
        "logprobs",
        "max_new_tokens",
        "namespace",
        "next_output",
        "next_scored",
        "node",
        "opened",
        "output_ids",
        "output_interval",
        "params",
        "priority",
        "processed_before",
        "prompt",
        "retractions",
        "rid",
        "row",
        "sample",
        "sent",
        "seq",
        "spec",
        "special_stops",
        "started_at",
        "stop_set",
        "tree_len",
        "turn",
        "watch",
    )

    def __init__(self, spec: TokenizedGenerateReqInput, config: SchedulerConfig) -> None:
        self.spec = spec
        self.rid = spec.rid
        self.prompt: TokenArray = np.asarray(spec.input_ids, np.int64)
        self.output_ids: list[int] = []
        self.params = _clip_params(spec, config)
        self.max_new_tokens: int = self.params.max_new_tokens or 0
        self.namespace: Namespace = (spec.extra_key, spec.cache_salt, spec.lora_id)
        self.priority = _priority_rank(spec, config)

        self.seq = 0  # arrival number
        self.turn = 0  # arrivals that may go first without anybody being overtaken
        self.enqueued_at = 0.0
        self.processed_before = 0  # tokens the scheduler had processed at arrival
        self.started_at: float | None = None
        self.deferrals = 0

        self.row = -1
        self.kv_len = 0
        self.tree_len = 0
        self.capacity = 0
        self.node: Node = None
        self.cached_tokens: int | None = None
        self.retractions = 0

        self.abort: FinishReason | None = None
        self.finished: FinishReason | None = None
        self.opened = False
        self.sent = 0  # output tokens already reported
        interval = spec.sampling_params.stream_interval or config.stream_interval
        self.output_interval = max(1, interval) if spec.stream else config.silent_interval
        self.next_output = 1 if spec.stream else config.silent_interval

        stop_ids = config.eos_token_ids.union(self.params.stop_token_ids)
        self.special_stops = spec.stop_special_ids
        self.stop_set = frozenset(self.special_stops) | (frozenset() if self.params.ignore_eos else stop_ids)
        self.watch: TextWatch | None = None
        self.grammar: GrammarState | None = None
        self.logprobs: LogprobDelta | None = LogprobDelta() if spec.return_logprob else None
        start = spec.logprob_start_len if spec.return_logprob and spec.logprob_start_len >= 0 else len(self.prompt)
        self.next_scored = min(start + 1, len(self.prompt))  # the entry at ``start`` itself has no value
        self.sample = SampleRow(
            row=0,
            params=self.params,
            seed=spec.seed,
            position=0,
            output_ids=self.output_ids,
            stop_ids=stop_ids,
            return_logprob=spec.return_logprob,
            top_logprobs_num=spec.top_logprobs_num,
            token_ids_logprob=spec.token_ids_logprob,
        )

    @property
    def prompt_len(self) -> int:
        return len(self.prompt)

    @property
    def total_len(self) -> int:
        return len(self.prompt) + len(self.output_ids)

    @property
    def max_total_len(self) -> int:
        """Positions that will be computed when the request runs to its limit (the last token is not written)."""
        return len(self.prompt) + max(self.max_new_tokens - 1, 0)

    @property
    def reuse_limit(self) -> int:
        """Longest prefix that may come from the cache: a token must be left to compute, and every position that
        yields a prompt logprob must be computed."""
        if self.next_scored < len(self.prompt):
            return self.next_scored - 1
        return self.total_len - 1

    @property
    def needs_sample(self) -> bool:
        """A request for 0 tokens computes its prompt only, but reports alternatives of the first position if asked."""
        return self.max_new_tokens > 0 or self.spec.return_logprob

    def tokens(self, end: int) -> TokenArray:
        """The first ``end`` tokens of prompt + output."""
        if end <= len(self.prompt):
            return self.prompt[:end]
        return np.concatenate((self.prompt, np.array(self.output_ids[: end - len(self.prompt)], np.int64)))

    def decode_spec(self) -> DecodeSpec:
        params = self.params
        return DecodeSpec(
            rid=self.rid,
            stop=params.stop,
            stop_regex=params.stop_regex,
            skip_special_tokens=params.skip_special_tokens,
            spaces_between_special_tokens=params.spaces_between_special_tokens,
            no_stop_trim=params.no_stop_trim,
        )

    # -------------------------------------------------------------- stopping

    def check_finished(self, token: int, invalid: bool) -> None:
        """Set ``finished`` if the request ends with its newest token. The order of the checks is part of the API."""
        if self.abort is not None:
            self.finished = self.abort
        elif invalid:
            self.finished = {"type": "stop", "matched": "NaN happened"}
        elif self.watch is not None and (matched := self.watch.push([token])) is not None:
            self.finished = {"type": "stop", "matched": matched}
        elif token in self.stop_set:
            self.finished = {"type": "stop", "matched": self.special_stops.get(token, token)}
        elif len(self.output_ids) >= self.max_new_tokens:
            self.finished = {"type": "length", "length": self.max_new_tokens}

    # -------------------------------------------------------------- logprobs

    def add_prompt_logprobs(self, entries: list[TokenLogprobs]) -> None:
        """Take the scores of the next prompt positions."""
        delta = self.logprobs
        assert delta is not None
        if not delta.input_idx:
            self._open_prompt_logprobs(delta)
        for entry in entries:
            delta.input_val.append(entry.logprob)
            delta.input_idx.append(int(self.prompt[self.next_scored]))
            self.next_scored += 1
            if self.spec.top_logprobs_num > 0:
                delta.input_top_val.append(entry.top_val)
                delta.input_top_idx.append(entry.top_idx)
            if self.spec.token_ids_logprob:
                delta.input_ids_val.append(entry.ids_val)
                delta.input_ids_idx.append(self.spec.token_ids_logprob)

    def _open_prompt_logprobs(self, delta: LogprobDelta) -> None:
        """The first entry: a token without a value, since nothing before it was scored."""
        delta.input_val.append(None)
        delta.input_idx.append(int(self.prompt[self.spec.logprob_start_len]))
        if self.spec.top_logprobs_num > 0:
            delta.input_top_val.append(None)
            delta.input_top_idx.append(None)
        if self.spec.token_ids_logprob:
            delta.input_ids_val.append(None)
            delta.input_ids_idx.append(None)

    def close_prompt_logprobs(self) -> None:
        """After the whole prompt: a start at the last token has one entry and nothing to score."""
        delta = self.logprobs
        if delta is None or self.output_ids or self.opened or delta.input_idx:
            return
        if 0 <= self.spec.logprob_start_len < len(self.prompt):
            self._open_prompt_logprobs(delta)

    def add_output_logprob(self, token: int, entry: TokenLogprobs) -> None:
        delta = self.logprobs
        assert delta is not None
        if self.max_new_tokens > 0:
            delta.output_val.append(entry.logprob)
            delta.output_idx.append(token)
        if self.spec.top_logprobs_num > 0:
            delta.output_top_val.append(entry.top_val)
            delta.output_top_idx.append(entry.top_idx)
        if self.spec.token_ids_logprob:
            delta.output_ids_val.append(entry.ids_val)
            delta.output_ids_idx.append(self.spec.token_ids_logprob)


def abort_reason(message: str, status_code: int | None = None, err_type: str | None = None) -> FinishReason:
    """The ``finish_reason`` object of an aborted request."""
    return {"type": "abort", "message": message, "status_code": status_code, "err_type": err_type}


def mistake(error: Exception) -> str:
    """What a caller learns of a mistake of ours: its kind. Its words may hold paths and other people's data."""
    return f"Internal server error ({type(error).__name__}); the log of the server says more"


def _clip_params(spec: TokenizedGenerateReqInput, config: SchedulerConfig) -> Any:
    """Cut the token budget down to what fits into context and pool; min_new_tokens follows."""
    params = spec.sampling_params
    room = max(config.max_req_len - len(spec.input_ids), 0)
    budget = room if params.max_new_tokens is None else min(params.max_new_tokens, room)
    if budget == params.max_new_tokens and params.min_new_tokens <= budget:
        return params
    return msgspec.structs.replace(params, max_new_tokens=budget, min_new_tokens=min(params.min_new_tokens, budget))


def _priority_rank(spec: TokenizedGenerateReqInput, config: SchedulerConfig) -> int:
    """Larger = sooner; one value for all while the feature is off."""
    if not config.enable_priority_scheduling:
        return 0
    value = config.default_priority if spec.priority is None else spec.priority
    if value is None:
        return LOWEST_PRIORITY
    return -value if config.low_priority_first else value
