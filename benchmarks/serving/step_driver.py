"""Steps of the model alone, without scheduler, messages or HTTP: seconds a step, and of each kind of operation.

    python -m benchmarks.serving.step_driver MODEL      a table; with --json one line of JSON

Sizes: decoding 1 and 32 requests at position 192, and a prompt of 512 tokens. The best of several steps counts.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from sglang.config.load_model_config import load_model_config
from sglang.config.server_args import ServerArgs
from sglang.executor.batch import Executor, ForwardBatch
from sglang.executor.create import create_executor
from sglang.ipc.sampling_params import SamplingParams
from sglang.sampling.rows import SampleRow

POSITION = 192
POOL = 32 * 256
SIZES = {"decode 1": (1, 1, POSITION), "decode 32": (32, 1, POSITION), "prefill 512": (1, 512, 0)}
"""Requests, new tokens of each, and tokens before them."""


def batch_of(requests: int, new: int, before: int) -> ForwardBatch:
    """A greedy step."""
    table = np.arange(POOL, dtype=np.int32).reshape(requests, -1)
    positions = np.tile(np.arange(before, before + new), requests)
    rows = np.repeat(np.arange(requests), new)
    greedy = SamplingParams(temperature=0.0)
    return ForwardBatch(
        input_ids=np.arange(requests * new) % 1000 + 100,
        positions=positions,
        out_slots=table[rows, positions].astype(np.int64),
        query_lens=np.full(requests, new),
        seq_lens=np.full(requests, before + new),
        table_rows=np.arange(requests),
        slot_table=table,
        sample=[
            SampleRow(row=row, params=greedy, seed=0, position=0, output_ids=[], stop_ids=frozenset())
            for row in range(requests)
        ],
    )


def measure(executor: Executor, batch: ForwardBatch, seconds: float = 1.5) -> dict[str, Any]:
    """``step``: seconds of the best step; ``operations``: seconds of each kind in a step, on the native path."""
    executor.run(batch)
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        executor.run(batch)
        best = min(best, time.perf_counter() - start)
    return {"step": best, "operations": operations(executor, batch)}


def operations(executor: Executor, batch: ForwardBatch, steps: int = 5) -> dict[str, float]:
    program = getattr(executor, "_program", None)
    if program is None:
        return {}
    program.profile(True)
    for _ in range(steps):
        executor.run(batch)
    total: dict[str, float] = {}
    for name, seconds in program.times():
        total[name] = total.get(name, 0.0) + seconds / steps
    program.profile(False)
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def main() -> None:
    parser = argparse.ArgumentParser(description="seconds a step of the model takes")
    parser.add_argument("model", type=Path)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    config = load_model_config(args.model)
    server_args = ServerArgs(model_path=str(args.model), max_total_tokens=POOL)
    executor = create_executor(server_args, config, show_progress=False)
    found = {name: measure(executor, batch_of(*size)) for name, size in SIZES.items()}
    if args.json:
        print(json.dumps(found))
        return
    for name, numbers in found.items():
        requests, new, _ = SIZES[name]
        print(f"{name}: {numbers['step'] * 1e3:.2f} ms, {requests * new / numbers['step']:,.0f} tok/s")
        whole = sum(numbers["operations"].values()) or 1.0
        for kind, seconds in numbers["operations"].items():
            print(f"    {kind:24} {seconds * 1e3:8.3f} ms {seconds / whole:6.1%}")


if __name__ == "__main__":
    main()
