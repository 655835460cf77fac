"""Random request lifetimes and what must hold after every step of them."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from sglang.ipc.messages import TokenizedGenerateReqInput
from unit.scheduler.fake_grammars import FakeGrammars
from unit.scheduler.fakes import VOCAB, ArithmeticExecutor, Caller, Outcome, make_core, make_request, run_all

POLICIES = ["fcfs", "lpm", "dfs-weight", "lof", "random", "hrrn", "shortest-prefill-first"]


def random_settings(rng: random.Random) -> dict[str, Any]:
    """A configuration with a tiny pool, so that everything has to be fought for."""
    page = rng.choice([1, 1, 4, 16])
    return {
        "page_size": page,
        "num_slots": rng.choice([64, 100, 101, 160, 400]),
        "context_length": rng.choice([64, 100]),
        "max_running_requests": rng.choice([1, 4, 8, 16]),
        "max_prefill_tokens": rng.choice([100, 128, 1000]),
        "prefill_max_requests": rng.choice([None, None, 1, 3]),
        "chunked_prefill_size": rng.choice([None, 1, 5, 16, 33]),
        "enable_mixed_chunk": rng.random() < 0.4,
        "prompt_share": rng.choice([None, 0.5, 30.0]),
        "policy": rng.choice(POLICIES),
        "enable_priority_scheduling": rng.random() < 0.3,
        "low_priority_first": rng.random() < 0.3,
        "preemption_threshold": rng.choice([0, 2, 10]),
        "retraction_policy": rng.choice(["length", "priority"]),
        "enable_prefix_cache": rng.random() < 0.8,
        "eviction_policy": rng.choice(["lru", "lfu", "slru", "priority", "tlru"]),
        "eos_token_ids": frozenset([11]),
        "init_new_token_ratio": rng.choice([0.0, 0.0, 0.1, 0.7]),
        "min_new_token_ratio": 0.0,
        "silent_interval": rng.choice([2, 5, 50]),
        "rng_seed": rng.randrange(1000),
        "grammars": FakeGrammars(VOCAB),
    }


def random_request(rng: random.Random, rid: str) -> TokenizedGenerateReqInput:
    """A request that is likely to share a prefix with others."""
    family = rng.randrange(2)
    stem = [(i * i + family) % 97 for i in range(rng.choice([0, 4, 20, 35, 40, 50]))]
    prompt = stem + [rng.randrange(97) for _ in range(rng.choice([1, 2, 5, 20]))]
    wants_logprobs = rng.random() < 0.3
    return make_request(
        rid,
        prompt,
        seed=rng.randrange(4),
        max_new_tokens=rng.choice([0, 1, 2, 7, 20, 60, None]),
        ignore_eos=rng.random() < 0.5,
        stop_token_ids=rng.sample(range(97), rng.choice([0, 0, 2])),
        stream=rng.random() < 0.5,
        stream_interval=rng.choice([None, None, 1, 3]),
        return_logprob=wants_logprobs,
        logprob_start_len=rng.choice([-1, 0, len(prompt) // 2, len(prompt)]) if wants_logprobs else -1,
        top_logprobs_num=rng.choice([0, 2]),
        token_ids_logprob=rng.choice([None, [5, 90]]),
        priority=rng.choice([None, -20, 0, 1, 50]),
        extra_key=rng.choice([None] * 5 + ["tenant"]),
        lora_id=rng.choice([None] * 5 + ["adapter"]),
        regex=rng.choice([None] * 4 + ["a", "b", "c"]),
    )


def solo(settings: dict[str, Any], request: TokenizedGenerateReqInput) -> Outcome:
    """The same request alone on a fresh core that shares and chunks nothing."""
    plain = {
        **settings,
        "enable_prefix_cache": False,
        "chunked_prefill_size": None,
        "policy": "fcfs",
        "max_prefill_tokens": 1000,
    }
    core = make_core(**plain)
    core.add(request)
    return run_all(core)[request.rid]


def check_against_solo(settings: dict[str, Any], request: TokenizedGenerateReqInput, outcome: Outcome) -> None:
    """Whatever happened to a request, it produced what it produces alone, or the beginning of it."""
    assert outcome.ends == 1, f"{request.rid} ended {outcome.ends} times"
    forced = request.sampling_params.regex is not None and not request.return_logprob
    # With logprobs, tokens that a grammar leaves no choice about take steps as others do: the plain way to compute.
    expected = solo(settings, msgspec.structs.replace(request, return_logprob=True) if forced else request)
    assert outcome.reason is not None
    assert expected.reason is not None
    if outcome.reason["type"] == "abort" and expected.reason["type"] != "abort":
        assert outcome.tokens == expected.tokens[: len(outcome.tokens)]
        return
    assert outcome.tokens == expected.tokens
    assert outcome.reason == expected.reason
    assert forced or outcome.logprobs == expected.logprobs
    assert outcome.prompt_tokens == expected.prompt_tokens


class Trace:
    """A core, its executor and its caller, driven by random events."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.settings = random_settings(rng)
        self.core = make_core(**self.settings)
        self.executor = ArithmeticExecutor(self.core.config.num_slots)
        self.caller = Caller()
        self.requests: dict[str, TokenizedGenerateReqInput] = {}
        self.idle_turns = 0

    def arrive(self) -> None:
        request = random_request(self.rng, f"r{len(self.requests)}")
        self.requests[request.rid] = request
        self.core.add(request)

    def abort(self) -> None:
        if self.rng.random() < 0.01:
            self.core.abort(abort_all=True)
        elif self.requests:
            self.core.abort(self.rng.choice(list(self.requests)[-20:]))

    def turn(self) -> bool:
        core = self.core
        batch = core.next_batch()
        if batch is not None:
            if self.rng.random() < 0.02:
                self.abort()  # while the step is being computed
            core.settle(batch, self.executor.run(batch))
        else:
            assert core.paused or core.is_idle, "requests wait, but nothing is done"
        self.caller.take(core)
        core.check_invariants()
        return batch is not None

    def flush(self) -> None:
        idle = not self.core.holders and (self.core.paused or not len(self.core.waiting))
        assert self.core.flush_cache() is idle
        if idle:
            assert self.core.memory.slots.free_slots == self.core.memory.size
            self.executor.kv[:] = -1

    def pause(self) -> None:
        self.core.pause(self.rng.choice(["abort", "retract", "retract", "in_place", "in_place"]))
        self.core.check_invariants()
        if self.rng.random() < 0.5:
            self.flush()

    def finish(self) -> None:
        """Let everything end; then all memory must be back and every request answered as if it had been alone."""
        self.core.resume()
        for _ in range(20_000):
            if self.core.is_idle:
                break
            self.turn()
        assert self.core.is_idle, "somebody starves"
        self.turn()
        assert self.core.memory.leak() is None
        for request in self.requests.values():
            check_against_solo(self.settings, request, self.caller[request.rid])
        assert self.core.flush_cache()
