"""The workloads, written against any way to send a prompt. Standard library only: peers' interpreters run it too.

    single    1 stream, about 128 tokens in, 128 out                     output tok/s
    batch     64 such prompts, 32 at once                                output tok/s
    prefill   8 prompts of about 960 tokens, 1 out, one at a time        prompt tok/s
    fewshot   64 requests on one warm prefix of about 870 tokens, 16 out, 16 at once   requests/s
    chat      8 conversations of 5 turns, each sends its history, 48 out  output tok/s
    branch    4 stems of about 390 tokens, 8 branches each, 32 out, all at once   output tok/s
    mixed     32 streams of 192 out while long prompts keep arriving     gap between tokens

All greedy, and the output length is forced. A seed fixes the prompts; a server's cache knows those of an earlier
run, so repeat with another seed or a fresh server.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from benchmarks.serving.stats import Reply, Run

Send = Callable[[str, int], Awaitable[Reply]]
"""Sends a prompt and a number of new tokens, gives the finished reply."""

NOUNS = (  # noqa: SIM905
    "apple bread cloud dream earth field glass house island jacket kitchen lake machine night ocean path queen "
    "road school tree uncle voice water year book city dinner egg fire girl hand idea job king light money name "
    "office people room"
).split()


def prose(rng: random.Random, words: int) -> str:
    """``words`` words in sentences; about 1.15 tokens a word with common vocabularies."""
    text: list[str] = []
    while len(text) < words:
        sentence = [rng.choice(NOUNS) for _ in range(rng.randint(6, 12))]
        sentence[0] = sentence[0].capitalize()
        sentence[-1] += "."
        text += sentence
    return " ".join(text[:words])


@dataclass(frozen=True, slots=True)
class Workload:
    """``measure`` is the key of the summary that counts, ``unit`` its name for people; ``slots`` of a server that
    keeps one prefix a slot and must choose how many; ``steps(requests)`` the fewest decode steps that can do it."""

    name: str
    measure: str
    unit: str
    slots: int
    run: Callable[[Send, random.Random, float], Awaitable[Run]]
    steps: Callable[[int], int]


async def run(workload: Workload, send: Send, seed: str, scale: float = 1.0) -> Run:
    """Drive ``workload``; ``scale`` is the share of its requests to send (lengths and concurrency stay)."""
    return await workload.run(send, random.Random(f"{seed}/{workload.name}"), scale)


def share(count: int, scale: float) -> int:
    return max(1, round(count * scale))


async def at_once(send: Send, jobs: list[tuple[str, int]], limit: int, warm: list[str] | None = None) -> Run:
    """Send all jobs, at most ``limit`` at a time, in order."""
    gate = asyncio.Semaphore(limit)

    async def one(prompt: str, tokens: int) -> Reply:
        async with gate:
            return await send(prompt, tokens)

    start = time.perf_counter()
    replies = await asyncio.gather(*(one(prompt, tokens) for prompt, tokens in jobs))
    return Run(list(replies), time.perf_counter() - start, warm or [])


async def single(send: Send, rng: random.Random, scale: float) -> Run:
    await send(prose(rng, 100), 8)
    return await at_once(send, [(prose(rng, 110), 128) for _ in range(share(4, scale))], 1)


async def batch(send: Send, rng: random.Random, scale: float) -> Run:
    return await at_once(send, [(prose(rng, 110), 128) for _ in range(share(64, scale))], 32)


async def prefill(send: Send, rng: random.Random, scale: float) -> Run:
    return await at_once(send, [(prose(rng, 860), 1) for _ in range(share(8, scale))], 1)


async def fewshot(send: Send, rng: random.Random, scale: float) -> Run:
    stem = prose(rng, 780)
    await send(stem, 1)
    jobs = [
        (f"{stem}\nTask {number}: compare the {rng.choice(NOUNS)} with the {rng.choice(NOUNS)}. Answer:", 16)
        for number in range(share(64, scale))
    ]
    return await at_once(send, jobs, 16, warm=[stem])


async def chat(send: Send, rng: random.Random, scale: float) -> Run:
    async def talk(number: int, own: random.Random) -> list[Reply]:
        history, replies = f"Talk {number}. {prose(own, 60)}\n", []
        for _ in range(5):
            history += f"User: {prose(own, 25)}\nAssistant:"
            replies.append(await send(history, 48))
            history += replies[-1].text + "\n"
        return replies

    randoms = [random.Random(rng.random()) for _ in range(share(8, scale))]
    start = time.perf_counter()
    talks = await asyncio.gather(*(talk(number, own) for number, own in enumerate(randoms)))
    return Run([reply for replies in talks for reply in replies], time.perf_counter() - start, [])


async def branch(send: Send, rng: random.Random, scale: float) -> Run:
    stems = [prose(rng, 350) for _ in range(share(4, scale))]
    jobs = [(f"{stem}\nThought {number} on the {rng.choice(NOUNS)}:", 32) for stem in stems for number in range(8)]
    return await at_once(send, jobs, 32)


async def mixed(send: Send, rng: random.Random, scale: float) -> Run:
    """Only the streams count; the long prompts come one after the other for as long as the streams run."""
    streams = [(prose(rng, 110), 192) for _ in range(32)]
    arriving = [prose(rng, 860) for _ in range(share(8, scale))]
    done = False

    async def arrive() -> None:
        for prompt in arriving:
            if done:
                return
            await send(prompt, 1)

    arrivals = asyncio.create_task(arrive())
    result = await at_once(send, streams, 32)
    done = True
    await arrivals
    return result


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("single", "out_tok_s", "output tok/s", 16, single, lambda requests: requests * 127),
        Workload("batch", "out_tok_s", "output tok/s", 16, batch, lambda requests: -(-requests // 32) * 127),
        Workload("prefill", "in_tok_s", "prompt tok/s", 16, prefill, lambda requests: 0),
        Workload("fewshot", "req_s", "requests/s", 8, fewshot, lambda requests: -(-requests // 16) * 15),
        Workload("chat", "out_tok_s", "output tok/s", 8, chat, lambda requests: 5 * 47),
        Workload("branch", "out_tok_s", "output tok/s", 8, branch, lambda requests: 31),
        Workload("mixed", "itl_p99", "s", 16, mixed, lambda requests: 191),
    )
}
