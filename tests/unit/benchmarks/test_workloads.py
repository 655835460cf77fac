"""The workloads ask for what they promise."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from benchmarks.serving.stats import Reply, Run
from benchmarks.serving.workloads import WORKLOADS, run

SHAPES = {
    # requests, new tokens of each, at once
    "single": (4, 128, 1),
    "batch": (64, 128, 32),
    "prefill": (8, 1, 1),
    "fewshot": (64, 16, 16),
    "chat": (40, 48, 8),
    "branch": (32, 32, 32),
}


class Recorder:
    """Answers everything at once, remembering how many requests were open together."""

    def __init__(self) -> None:
        self.open = self.most = 0

    async def send(self, prompt: str, tokens: int) -> Reply:
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(0)
        self.open -= 1
        return Reply(prompt, tokens, 0.0, 1.0, [1.0], " yes", len(prompt.split()), tokens)


def drive(name: str, seed: str = "0", scale: float = 1.0) -> tuple[Run, int]:
    recorder = Recorder()
    return asyncio.run(run(WORKLOADS[name], recorder.send, seed, scale)), recorder.most


@pytest.mark.parametrize("name", SHAPES)
def test_shape(name: str) -> None:
    got, most = drive(name)
    assert (len(got.replies), {reply.asked for reply in got.replies}, most) == (
        SHAPES[name][0],
        {SHAPES[name][1]},
        SHAPES[name][2],
    )


def test_a_seed_fixes_the_prompts() -> None:
    first, again, other = ([reply.prompt for reply in drive("branch", seed)[0].replies] for seed in ("0", "0", "1"))
    assert first == again
    assert not set(first) & set(other)


def test_scale_keeps_lengths_and_concurrency() -> None:
    got, most = drive("batch", scale=0.5)
    assert (len(got.replies), most) == (32, 32)
    assert {reply.asked for reply in got.replies} == {128}


def test_prefixes() -> None:
    fewshot, _ = drive("fewshot")
    assert all(reply.prompt.startswith(fewshot.warm[0]) for reply in fewshot.replies)
    assert len({reply.prompt for reply in fewshot.replies}) == 64
    chat, _ = drive("chat")
    turns = [reply.prompt for reply in chat.replies[:5]]
    assert all(later.startswith(earlier + " yes\n") for earlier, later in pairwise(turns))


def test_mixed_measures_the_streams_only() -> None:
    got, most = drive("mixed")
    assert [reply.asked for reply in got.replies] == [192] * 32
    assert most == 33
