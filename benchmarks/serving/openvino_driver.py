"""A workload on OpenVINO GenAI, in process; runs with the peer's interpreter and prints one line of JSON.

    PYTHONPATH=. ~/.cache/sglang-peers/openvino/bin/python benchmarks/serving/openvino_driver.py FILE.gguf \\
        --workload batch --threads 2

The pipeline is stepped by hand: a thread of its own would compete with the compute threads for the cores. No HTTP and
no streaming of text, so it is flattered next to servers. Pieces are stamped by the step that made them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

import openvino_genai as genai

from benchmarks.serving import workloads
from benchmarks.serving.stats import Reply, summary

CACHE_GB = 2
BATCH_TOKENS = 512


@dataclass(slots=True)
class Running:
    handle: Any
    reply: Reply
    ids: list[int]
    done: asyncio.Future[Reply]


class Stepper:
    """Turns a pipeline that is stepped into awaitable requests."""

    def __init__(self, model: str, threads: int) -> None:
        scheduler = genai.SchedulerConfig()
        scheduler.cache_size = CACHE_GB
        scheduler.max_num_batched_tokens = BATCH_TOKENS
        scheduler.enable_prefix_caching = True
        self._pipeline = genai.ContinuousBatchingPipeline(model, scheduler, "CPU", {"INFERENCE_NUM_THREADS": threads})
        self._tokenizer = self._pipeline.get_tokenizer()
        self._running: list[Running] = []
        self._task: asyncio.Task[None] | None = None
        self._number = 0

    async def send(self, prompt: str, tokens: int) -> Reply:
        start = time.perf_counter()
        ids = self._tokenizer.encode(prompt).input_ids
        config = genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = tokens, True, False
        handle = self._pipeline.add_request(self._number, ids, config)
        self._number += 1
        reply = Reply(prompt, tokens, start, start, [], "", int(ids.shape[1]), 0)
        running = Running(handle, reply, [], asyncio.get_running_loop().create_future())
        self._running.append(running)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._step())
        return await running.done

    async def _step(self) -> None:
        while self._running:
            self._pipeline.step()
            now = time.perf_counter()
            for running in self._running:
                self._collect(running, now)
            self._running = [running for running in self._running if not running.done.done()]
            await asyncio.sleep(0)  # finished requests are followed by new ones
            await asyncio.sleep(0)

    def _collect(self, running: Running, now: float) -> None:
        reply = running.reply
        if running.handle.can_read():
            for output in running.handle.read().values():
                fresh = list(output.generated_ids)
                if fresh:
                    running.ids += fresh
                    reply.stamps.append(now)
        if running.handle.get_status() != genai.GenerationStatus.RUNNING:
            reply.end, reply.n_out = now, len(running.ids)
            reply.text = self._tokenizer.decode(running.ids)
            running.done.set_result(reply)


async def drive(args: argparse.Namespace) -> dict[str, Any]:
    stepper = Stepper(args.model, args.threads)
    return summary(await workloads.run(workloads.WORKLOADS[args.workload], stepper.send, args.seed, args.scale))


def main() -> None:
    parser = argparse.ArgumentParser(description="a workload on OpenVINO GenAI")
    parser.add_argument("model")
    parser.add_argument("--workload", choices=sorted(workloads.WORKLOADS), default="batch")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    print(json.dumps(asyncio.run(drive(args))))


if __name__ == "__main__":
    main()
