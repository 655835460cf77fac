"""From a checked plan and its token ids to the records that travel: one a sequence, with its stream."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

from sglang.ipc.codec import encode
from sglang.ipc.errors import InvalidRequest
from sglang.ipc.inputs import GenerateReqInput
from sglang.ipc.messages import TokenizedGenerateReqInput
from sglang.ipc.sampling_params import SamplingParams
from sglang.processes.tokenizer.lengths import fit
from sglang.processes.tokenizer.render import StreamOptions
from sglang.processes.tokenizer.streams import RequestStream
from sglang.processes.tokenizer.validate import INT64_MAX, MAX_REQUEST_TOKENS, Plan, PromptSpec, Rules
from sglang.text.tokenizer import Tokenizer


@dataclass(slots=True)
class BuiltRequest:
    """Parallel lists, flattened prompt-major."""

    streams: list[RequestStream] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)
    """Encoded records, so that nothing can go wrong between the first and the last one sent."""
    parents: list[tuple[str, ...]] = field(default_factory=list)
    """Other rids a stream answers to."""


class RequestBuilder:
    """Expands samples, draws seeds, fits lengths."""

    def __init__(self, rules: Rules, tokenizer: Tokenizer | None, weight_version: str, rng: random.Random) -> None:
        self._rules = rules
        self._tokenizer = tokenizer
        self._weight_version = weight_version
        self._rng = rng

    def build(self, plan: Plan, prompt_ids: list[list[int]], obj: GenerateReqInput) -> BuiltRequest:
        """Raises :class:`InvalidRequest` where a prompt does not fit."""
        total = sum(map(len, prompt_ids)) * plan.n
        if total > MAX_REQUEST_TOKENS:
            text = f"the prompts of this request hold {total} tokens (n = {plan.n} times); at most {MAX_REQUEST_TOKENS}"
            raise InvalidRequest(f"{text} are allowed; send them in several requests", "text")
        built = BuiltRequest()
        now = time.time()
        for spec, raw_ids in zip(plan.prompts, prompt_ids, strict=True):
            ids, params = fit(spec, raw_ids, self._rules)
            special = self._special_stops(params)
            for sample in range(plan.n):
                rid = spec.rid if plan.n == 1 else f"{spec.rid}_{sample}"
                built.parents.append(_parents(plan, spec))
                built.streams.append(self._stream(len(built.streams), rid, ids, spec, obj))
                built.frames.append(
                    encode(
                        TokenizedGenerateReqInput(
                            rid=rid,
                            input_ids=ids,
                            sampling_params=params,
                            seed=self._seed(params, sample),
                            stream=bool(obj.stream),
                            return_logprob=spec.return_logprob,
                            logprob_start_len=spec.logprob_start_len,
                            top_logprobs_num=spec.top_logprobs_num,
                            token_ids_logprob=spec.token_ids_logprob,
                            priority=plan.priority,
                            extra_key=spec.extra_key,
                            cache_salt=spec.cache_salt,
                            stop_special_ids=special,
                            think_end_ids=list(self._rules.think_end_ids) if obj.require_reasoning else [],
                            arrival_time=now,
                        )
                    )
                )
        return built

    def _stream(self, index: int, rid: str, ids: list[int], spec: PromptSpec, obj: GenerateReqInput) -> RequestStream:
        tokenizer = self._tokenizer
        options = StreamOptions(
            index=index,
            rid=rid,
            weight_version=self._weight_version,
            has_text=tokenizer is not None,
            return_logprob=spec.return_logprob,
            top_logprobs_num=spec.top_logprobs_num,
            token_ids_logprob=spec.token_ids_logprob is not None,
            token_text=tokenizer.token_text if tokenizer is not None and obj.return_text_in_logprobs else None,
            return_prompt_token_ids=bool(obj.return_prompt_token_ids),
        )
        return RequestStream(options, ids)

    def _seed(self, params: SamplingParams, sample: int) -> int:
        if params.sampling_seed is None:
            return self._rng.getrandbits(63)
        return (params.sampling_seed + sample) & INT64_MAX

    def _special_stops(self, params: SamplingParams) -> dict[int, str]:
        """Special tokens named as stop strings: their text may never appear, so the id has to stop."""
        if self._tokenizer is None:
            return {}
        found = {self._tokenizer.special_token_id(stop): stop for stop in params.stop}
        return {token: stop for token, stop in found.items() if token is not None}


def _parents(plan: Plan, spec: PromptSpec) -> tuple[str, ...]:
    names = [] if plan.parent_rid is None else [plan.parent_rid]
    if plan.n > 1:
        names.append(spec.rid)
    return tuple(names)
