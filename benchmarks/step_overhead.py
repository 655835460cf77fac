"""Microseconds of a scheduler step outside the kernels: choosing, preparing, sampling, settling, messages.

    python benchmarks/step_overhead.py [--batch 1,32] [--tokens 128] [--temperature 0]

A whole system serves a real model on the native kernels; the scheduler's thread takes its processor time of every turn
and of the kernel call in it. While what remains passes, no kernel runs. (Processor time, because on a machine with
other work wall time tells more of that than of us.)
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from typing import Any

from sglang import Engine
from sglang.config.ports import PortArgs
from sglang.config.server_args import ServerArgs
from sglang.executor.native_executor import NativeExecutor
from sglang.ipc.startup import ReadySender
from sglang.processes.scheduler.loop import SchedulerLoop
from sglang.processes.scheduler.process import run_scheduler_process

REPORT_VARIABLE = "STEP_OVERHEAD_REPORT"
"""Environment: file to which the scheduler process writes a line for every turn: rows, turn, kernels (seconds)."""


class TimedProgram:
    """The recorded program, with a stop watch."""

    def __init__(self, program: Any) -> None:
        self._program = program
        self.seconds = 0.0

    def run(self, *args: Any) -> Any:
        begin = time.thread_time()
        result = self._program.run(*args)
        self.seconds += time.thread_time() - begin
        return result


def run_timed_scheduler_process(server_args: ServerArgs, port_args: PortArgs, ready: ReadySender) -> None:
    """The scheduler process with its turns timed."""
    lines: list[str] = []
    turn, receive = SchedulerLoop.turn, SchedulerLoop._receive
    waited = 0.0

    def timed_receive(loop: SchedulerLoop) -> Any:
        nonlocal waited
        begin, idle = time.thread_time(), not loop._computed
        messages = receive(loop)
        if idle:
            waited = time.thread_time() - begin  # nothing to compute: that is no overhead
        return messages

    def timed_turn(loop: SchedulerLoop) -> None:
        nonlocal waited
        executor = loop._executor
        assert isinstance(executor, NativeExecutor), "install the native kernels"
        if not isinstance(executor._program, TimedProgram):
            executor._program = TimedProgram(executor._program)
        program, waited = executor._program, 0.0
        program.seconds = 0.0
        begin = time.thread_time()
        turn(loop)
        rows = loop._core.stats._rows - getattr(loop, "rows_before", 0)
        loop.rows_before = loop._core.stats._rows  # type: ignore[attr-defined]
        lines.append(f"{rows} {time.thread_time() - begin - waited} {program.seconds}\n")
        if len(lines) >= 64:
            with open(os.environ[REPORT_VARIABLE], "a") as report:
                report.writelines(lines)
            lines.clear()

    SchedulerLoop.turn, SchedulerLoop._receive = timed_turn, timed_receive  # type: ignore[method-assign]
    run_scheduler_process(server_args, port_args, ready)


class TimedEngine(Engine):
    """An engine whose scheduler reports its turns."""

    run_scheduler_process_func = "step_overhead:run_timed_scheduler_process"


def measure(batch: int, args: argparse.Namespace) -> tuple[float, float, float]:
    """Median microseconds of a decode step: overhead, its 90th percentile, kernels."""
    handle, path = tempfile.mkstemp(prefix="step-overhead-")
    os.close(handle)
    os.environ[REPORT_VARIABLE] = path
    with TimedEngine(model_path=args.model, max_total_tokens=16384, log_level="error") as engine:
        params = {"max_new_tokens": args.tokens + 64, "ignore_eos": True, "temperature": args.temperature}
        chunks = engine.generate([f"Number {n} is" for n in range(batch)], params, stream=True)
        for _ in chunks:  # streaming: every token makes a message
            pass
    with open(path) as report:
        turns = [tuple(map(float, line.split())) for line in report]
    os.unlink(path)
    steps = [(turn - kernels, kernels) for rows, turn, kernels in turns if rows == batch and kernels]
    overheads = sorted(overhead for overhead, _ in steps)
    kernels = statistics.median(kernels for _, kernels in steps)
    return statistics.median(overheads) * 1e6, overheads[int(len(overheads) * 0.9)] * 1e6, kernels * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", default="1,32")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--model", default="")
    args = parser.parse_args()
    print(f"{'batch':>6} {'overhead µs':>12} {'p90':>8} {'kernels µs':>11}")
    for batch in map(int, args.batch.split(",")):
        overhead, late, kernels = measure(batch, args)
        print(f"{batch:>6} {overhead:>12.0f} {late:>8.0f} {kernels:>11.0f}")


if __name__ == "__main__":
    main()
