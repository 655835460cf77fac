"""What is measured of the system besides workloads: start-up, memory, and the cost of a step besides the model."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.serving import report
from benchmarks.serving.contenders import ROOT, Contender, HttpServer, RunningServer, sglang_server
from benchmarks.serving.workloads import WORKLOADS

POOL_TOKENS = 8192
Values = dict[str, dict[str, float]]


def llama_cpp_server(model: Path, threads: int) -> HttpServer:
    def command(port: int, slots: int) -> list[str]:
        return peers.llama_server_command(model, port, slots, threads)

    return HttpServer(report.LLAMA_CPP, command, slotted=True, env=peers.llama_cpp_env())


async def start_and_memory(model: Path, contenders: Sequence[Contender], threads: int) -> Values:
    """Seconds until the first good answer of /health (second start, so files are in memory), and MiB after a few
    requests with room for 8192 tokens of context: pages that processes share counted once."""
    values: Values = {"ready": {}, "memory": {}, "memory, peak of each process": {}}
    small = []
    for contender in contenders:
        if isinstance(contender, RunningServer):
            continue
        if contender.name == report.OURS:
            small.append(sglang_server(model, ["--max-total-tokens", str(POOL_TOKENS)]))
        elif contender.name == report.LLAMA_CPP:
            small.append(llama_cpp_server(model, threads))  # slots of 2048 tokens
    for server in small:
        slots = POOL_TOKENS // 2048
        try:
            await server.ensure(slots)
            server.stop()
            client = await server.ensure(slots)
            await WORKLOADS["batch"].run(client.send, random.Random(0), 0.125)
            memory = server.read_memory()
        finally:
            server.stop()
        values["ready"][server.name] = server.ready_seconds[-1]
        values["memory"][server.name] = memory.pss
        values["memory, peak of each process"][server.name] = memory.peak_rss
    return values


async def model_steps(model: Path) -> dict[str, Any]:
    """What :mod:`benchmarks.serving.step_driver` measures."""
    command = [sys.executable, "-m", "benchmarks.serving.step_driver", str(model), "--json"]
    found: dict[str, Any] = json.loads((await output_of(command)).strip().splitlines()[-1])
    return found


async def step_overhead(model: Path) -> Values:
    """Microseconds a step outside the kernels: scheduler, sampling and messages, with streaming answers."""
    text = await output_of([sys.executable, str(ROOT / "benchmarks" / "step_overhead.py"), "--model", str(model)])
    return {f"step overhead, batch {batch}": {report.OURS: named_value(text, str(batch))} for batch in (1, 32)}


async def output_of(command: list[str]) -> str:
    """What the command prints; its errors go to the terminal."""
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, cwd=ROOT)
    out, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return out.decode()


def named_value(text: str, name: str) -> float:
    """The number after ``name`` in the line of ``text`` that begins with it."""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == [name]:
            return float(words[1])
    raise ValueError(f"no line begins with {name!r} in:\n{text}")
