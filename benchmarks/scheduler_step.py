"""Scheduler overhead: microseconds a decode step costs besides the model, at several batch sizes.

    python benchmarks/scheduler_step.py [--steps 2000] [--page-size 1] [--stream]

Times ``next_batch`` + ``settle`` + ``take_outputs``; the fake model between them is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import time

from sglang.executor.batch import ForwardBatch, StepResult
from sglang.ipc.messages import TokenizedGenerateReqInput
from sglang.ipc.sampling_params import SamplingParams
from sglang.processes.scheduler.config import SchedulerConfig
from sglang.processes.scheduler.core import SchedulerCore

BATCHES = (1, 32, 256)
PROMPT = 32


def always_seven(batch: ForwardBatch) -> StepResult:
    """A model that costs nothing."""
    return StepResult(tokens=[7] * len(batch.sample))


def fill(batch: int, steps: int, page_size: int, stream: bool) -> SchedulerCore:
    """A core with ``batch`` running requests that will decode for ``steps`` more steps."""
    length = PROMPT + steps + 64
    config = SchedulerConfig(
        num_slots=batch * (length + page_size),
        context_length=length + 1,
        page_size=page_size,
        max_running_requests=batch,
        max_prefill_tokens=1 << 20,
        init_new_token_ratio=0.0,
        min_new_token_ratio=0.0,
        new_token_ratio_decay=0.0,
        max_new_tokens_estimate=0,
    )
    core = SchedulerCore(config)
    for number in range(batch):
        core.add(
            TokenizedGenerateReqInput(
                rid=f"request-{number:04d}",
                input_ids=[number, *range(1, PROMPT)],
                sampling_params=SamplingParams(max_new_tokens=steps + 32, ignore_eos=True),
                seed=number,
                stream=stream,
            )
        )
    while len(core.running) < batch:
        prefill = core.next_batch()
        assert prefill is not None
        core.settle(prefill, always_seven(prefill))
    core.take_outputs()
    return core


def measure(core: SchedulerCore, steps: int) -> list[float]:
    """Seconds of scheduler work in each step."""
    now = time.perf_counter
    times = []
    for _ in range(steps):
        start = now()
        batch = core.next_batch()
        chosen = now()
        assert batch is not None
        result = always_seven(batch)
        computed = now()
        core.settle(batch, result)
        core.take_outputs()
        times.append(chosen - start + now() - computed)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description="scheduler overhead of a decode step, in microseconds")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--page-size", type=int, default=1)
    parser.add_argument("--stream", action="store_true", help="requests that report every token")
    args = parser.parse_args()
    print(f"{'batch':>6} {'median µs':>10} {'p99 µs':>8}")
    for batch in BATCHES:
        times = measure(fill(batch, args.steps, args.page_size, args.stream), args.steps)
        worst = statistics.quantiles(times, n=100)[98]
        print(f"{batch:>6} {statistics.median(times) * 1e6:>10.1f} {worst * 1e6:>8.1f}")


if __name__ == "__main__":
    main()
