"""Batch invariance, bit for bit, on real weights.

Forty requests of mixed length and sampling must give the same tokens and logprobs alone, together, shuffled, with a
cold or warm cache, with any chunk size, and after forced retraction.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import sglang

COUNT = 40
VOCAB = 49152


def requests() -> list[tuple[list[int], dict[str, Any]]]:
    """Prompts of 1 … 400 tokens, some sharing prefixes; greedy, sampled and penalised."""
    rng = random.Random(7)
    stem = [rng.randrange(100, VOCAB) for _ in range(300)]
    out = []
    for i in range(COUNT):
        length = rng.choice([1, 2, 3, 5, 9, 17, 33, 64, 65, 127, 128, 129, 200, 400])
        shared = rng.choice([0, 0, min(length, 300)])
        ids = stem[:shared] + [rng.randrange(100, VOCAB) for _ in range(length - shared + 1)]
        kinds: list[dict[str, Any]] = [
            {"temperature": 0},
            {"temperature": 0.7, "top_p": 0.9, "sampling_seed": i},
            {"temperature": 1.2, "top_k": 40, "min_p": 0.02, "sampling_seed": 1000 + i},
            {"temperature": 0, "frequency_penalty": 0.5, "presence_penalty": 0.3, "repetition_penalty": 1.1},
        ]
        params = {**kinds[i % 4], "max_new_tokens": rng.choice([1, 4, 12, 24]), "ignore_eos": True}
        out.append((ids, params))
    return out


REQUESTS = requests()
Answer = tuple[list[int], list[Any], list[Any]]


def answers(engine: sglang.Engine, order: list[int], together: bool, start: int = 0) -> dict[int, Answer]:
    """Tokens, output logprobs and prompt logprobs by request number. ``start`` -1 leaves the prompt unscored, so
    that the prefix cache may be used."""
    ids = [REQUESTS[i][0] for i in order]
    params = [REQUESTS[i][1] for i in order]
    kwargs: dict[str, Any] = {"return_logprob": True, "top_logprobs_num": 2, "logprob_start_len": start}
    if together:
        results = engine.generate(input_ids=ids, sampling_params=params, **kwargs)
    else:
        results = [engine.generate(input_ids=i, sampling_params=p, **kwargs) for i, p in zip(ids, params, strict=True)]
    return {
        number: (
            result["output_ids"],
            [result["meta_info"]["output_token_logprobs"], result["meta_info"]["output_top_logprobs"]],
            result["meta_info"].get("input_token_logprobs", []),
        )
        for number, result in zip(order, results, strict=True)
    }


def same(left: dict[int, Answer], right: dict[int, Answer], prompts: bool = True) -> None:
    for number in left:
        assert left[number][:2] == right[number][:2], f"request {number} differs"
        if prompts:
            assert left[number][2] == right[number][2], f"prompt logprobs of request {number} differ"


def engine_with(model: Path, **kwargs: Any) -> sglang.Engine:
    return sglang.Engine(model_path=str(model), max_total_tokens=kwargs.pop("max_total_tokens", 16384), **kwargs)


@pytest.fixture(scope="module")
def alone(smollm2_gguf: Path) -> dict[int, Answer]:
    """The reference: one at a time, no prefix cache, whole prompts."""
    with engine_with(smollm2_gguf, disable_radix_cache=True, chunked_prefill_size=-1) as engine:
        return answers(engine, list(range(COUNT)), together=False)


def test_together_shuffled_cold_and_warm(smollm2_gguf: Path, alone: dict[int, Answer]) -> None:
    order = list(range(COUNT))
    with engine_with(smollm2_gguf) as engine:
        same(alone, answers(engine, order, together=True))
        random.Random(1).shuffle(order)
        same(alone, answers(engine, order, together=True, start=-1), prompts=False)
        same(alone, answers(engine, order, together=False, start=-1), prompts=False)
        engine.flush_cache()
        same(alone, answers(engine, order[::-1], together=True, start=-1), prompts=False)


@pytest.mark.parametrize("chunk", [1, 7, 64, 512])
def test_chunked_prefill(smollm2_gguf: Path, alone: dict[int, Answer], chunk: int) -> None:
    order = list(range(0, COUNT, 1 if chunk > 7 else 5))  # tiny chunks take many steps
    with engine_with(smollm2_gguf, chunked_prefill_size=chunk, enable_mixed_chunk=chunk == 64) as engine:
        same({i: alone[i] for i in order}, answers(engine, order, together=True))


@pytest.mark.parametrize("page_size", [1, 16])
def test_forced_retraction(smollm2_gguf: Path, page_size: int) -> None:
    """Short prompts with long answers in a pool that promises little room for them."""
    ids = [prompt[: 1 + i % 17] for i, (prompt, _) in enumerate(REQUESTS)]
    params = [{**param, "max_new_tokens": 40} for _, param in REQUESTS]

    def run(**kwargs: Any) -> list[dict[str, Any]]:
        with engine_with(smollm2_gguf, page_size=page_size, **kwargs) as engine:
            return engine.generate(input_ids=ids, sampling_params=params, return_logprob=True, top_logprobs_num=2)

    roomy = run()
    tight = run(max_total_tokens=512, schedule_conservativeness=0.01)
    assert sum(result["meta_info"]["num_retractions"] for result in roomy) == 0
    assert sum(result["meta_info"]["num_retractions"] for result in tight) > 0
    for left, right in zip(roomy, tight, strict=True):
        assert left["output_ids"] == right["output_ids"]
        for key in ("output_token_logprobs", "output_top_logprobs"):
            assert left["meta_info"][key] == right["meta_info"][key]
