"""A model that is only arithmetic, and helpers to run a core to its end."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sglang.executor.batch import ForwardBatch, SampleRow, StepResult, TokenLogprobs
from sglang.ipc.messages import AbortReq, BatchTokenIDOutput, LogprobDelta, Message, TokenizedGenerateReqInput
from sglang.ipc.sampling_params import SamplingParams
from sglang.processes.scheduler.config import SchedulerConfig
from sglang.processes.scheduler.core import SchedulerCore
from unit.scheduler.fake_grammars import allowed_tokens

VOCAB = 97
PRIME = 1_000_003


class ArithmeticExecutor:
    """Every slot holds a number that depends on the whole prefix; a row's token depends on all slots of the row.

    A wrong slot, a slot that somebody else overwrote, or a prefix shared by mistake changes the tokens.
    """

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self.kv = np.full(num_slots, -1, np.int64)
        self.steps = 0

    def run(self, batch: ForwardBatch) -> StepResult:
        self.steps += 1
        start = 0
        states: list[np.ndarray[Any, Any]] = []
        assert len(set(batch.out_slots.tolist())) == len(batch.out_slots), "two tokens written to one slot"
        for row, query in enumerate(batch.query_lens.tolist()):
            table = batch.slot_table[batch.table_rows[row]]
            length = int(batch.seq_lens[row])
            for i in range(start, start + query):
                position = int(batch.positions[i])
                assert batch.out_slots[i] == table[position]
                before = int(self.kv[table[position - 1]]) if position else 7
                self.kv[table[position]] = (before * 31 + int(batch.input_ids[i]) * 17 + position + 1) % PRIME
            assert int(batch.positions[start + query - 1]) == length - 1
            states.append(np.cumsum(self.kv[table[:length]] * (2 * np.arange(length) + 1)) % PRIME)
            start += query
        for p in batch.prompt_logprobs:
            assert 0 <= p.offset <= p.offset + len(p.targets) <= batch.query_lens[p.row], "scores what is not computed"
        tokens = [_choose(int(states[s.row][-1]) + s.seed * 13 + s.position * 5, s) for s in batch.sample]
        return StepResult(
            tokens=tokens,
            logprobs=[
                _entry(int(states[s.row][-1]), t, s.top_logprobs_num, s.token_ids_logprob) if s.return_logprob else None
                for s, t in zip(batch.sample, tokens, strict=True)
            ],
            prompt_logprobs=[
                [
                    _entry(
                        int(states[p.row][len(states[p.row]) - int(batch.query_lens[p.row]) + p.offset + i]),
                        target,
                        p.top_logprobs_num,
                        p.token_ids_logprob,
                    )
                    for i, target in enumerate(p.targets)
                ]
                for p in batch.prompt_logprobs
            ],
        )


def _choose(key: int, sample: SampleRow) -> int:
    if sample.mask is None:
        return key % VOCAB
    allowed = allowed_tokens(sample.mask, VOCAB)
    return allowed[key % len(allowed)]


def _entry(state: int, token: int, top: int, ids: list[int] | None) -> TokenLogprobs:
    def value(t: int) -> float:
        return -float((state * 3 + t * 7) % 1009)

    best = list(range(top)) if top else None
    return TokenLogprobs(
        value(token), [value(t) for t in best] if best else None, best, [value(t) for t in ids] if ids else None
    )


@dataclass
class Outcome:
    """Everything a caller sees of one request."""

    tokens: list[int] = field(default_factory=list)
    reason: dict[str, Any] | None = None
    ends: int = 0
    chunks: list[int] = field(default_factory=list)  # completion tokens at each message
    cached: int = -1
    retractions: int = 0
    prompt_tokens: int = 0
    logprobs: LogprobDelta = field(default_factory=LogprobDelta)
    dropped: bool = False


class Caller:
    """Collects outputs by request and checks that they are well formed."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self.opened: set[str] = set()
        self.others: list[Message] = []

    def __getitem__(self, rid: str) -> Outcome:
        return self.outcomes.setdefault(rid, Outcome())

    def take(self, core: SchedulerCore) -> None:
        for message in core.take_outputs():
            if isinstance(message, BatchTokenIDOutput):
                self._batch(message)
            elif isinstance(message, AbortReq):
                outcome = self[message.rid]
                assert message.rid not in self.opened, "dropped after it had been opened"
                outcome.reason, outcome.dropped = message.finished_reason, True
                outcome.ends += 1
            else:
                self.others.append(message)

    def _batch(self, message: BatchTokenIDOutput) -> None:
        assert len(set(message.rids)) == len(message.rids)
        for spec in message.opened:
            assert spec.rid not in self.opened
            self.opened.add(spec.rid)
        for i, rid in enumerate(message.rids):
            assert rid in self.opened
            outcome = self[rid]
            assert outcome.reason is None, "output after the end"
            outcome.tokens += message.output_ids[i]
            outcome.chunks.append(message.completion_tokens[i])
            assert len(outcome.tokens) == message.completion_tokens[i]
            outcome.cached = message.cached_tokens[i]
            outcome.retractions = message.retraction_counts[i]
            outcome.prompt_tokens = message.prompt_tokens[i]
            outcome.reason = message.finished_reasons[i]
            outcome.ends += outcome.reason is not None
            delta = message.logprobs[i] if message.logprobs is not None else None
            if delta is not None:
                for name in LogprobDelta.__struct_fields__:
                    getattr(outcome.logprobs, name).extend(getattr(delta, name))


def make_core(**settings: Any) -> SchedulerCore:
    clock: Callable[[], float] = settings.pop("clock", lambda: 0.0)
    factory = settings.pop("text_watch_factory", None)
    seed = settings.pop("rng_seed", 0)
    grammars = settings.pop("grammars", None)
    base: dict[str, Any] = {"num_slots": 256, "context_length": 128, "max_running_requests": 8}
    return SchedulerCore(SchedulerConfig(**{**base, **settings}), factory, clock, random.Random(seed), grammars)


def make_request(rid: str, prompt: list[int] | int, **fields: Any) -> TokenizedGenerateReqInput:
    """A request; sampling parameters and message fields in one list of keywords."""
    params = {k: fields.pop(k) for k in list(fields) if k in SamplingParams.__struct_fields__}
    params.setdefault("max_new_tokens", 8)
    ids = [(i * 7 + 3) % VOCAB for i in range(prompt)] if isinstance(prompt, int) else prompt
    return TokenizedGenerateReqInput(
        rid=rid, input_ids=ids, sampling_params=SamplingParams(**params), seed=fields.pop("seed", 1), **fields
    )


def step(core: SchedulerCore, executor: ArithmeticExecutor, caller: Caller, check: bool = True) -> bool:
    """One turn; False when there was nothing to do."""
    batch = core.next_batch()
    if batch is not None:
        core.settle(batch, executor.run(batch))
    caller.take(core)
    if check:
        core.check_invariants()
    return batch is not None


def run_all(
    core: SchedulerCore, executor: ArithmeticExecutor | None = None, caller: Caller | None = None, limit: int = 10_000
) -> Caller:
    """Turns until the core is idle."""
    executor = executor or ArithmeticExecutor(core.config.num_slots)
    caller = caller or Caller()
    for _ in range(limit):
        if core.is_idle:
            caller.take(core)
            return caller
        assert step(core, executor, caller) or core.is_idle, "stuck"
    raise AssertionError(f"not idle after {limit} turns")
