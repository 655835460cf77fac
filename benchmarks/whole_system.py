"""What everything around the model costs: all processes and messages are real, a step is a fixed amount of work.

    python benchmarks/whole_system.py [--batch 32] [--tokens 128] [--cost 20,0,0,2] [--ways engine,http]

For every way of asking: output tokens per second (and the share of what the steps alone would allow), gaps between
tokens as the client sees them, and the processor time of each process, in microseconds a step. ``engine`` and
``engine-stream`` ask in process, ``http`` and ``native`` stream completions from a server, ``http-whole`` waits.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import fake_scheduler
import psutil

from sglang import Engine
from sglang.api import server
from sglang.config.server_args import ServerArgs
from sglang.engine.launcher import Launch

PROMPT = [*range(1000, 1032)]
FLAGS = {"max_total_tokens": 16384, "log_level": "error"}
Report = dict[str, float]


class FakeEngine(Engine):
    """An engine over the fake scheduler."""

    run_scheduler_process_func = fake_scheduler.ENTRY


def cpu_seconds(pid: int) -> dict[str, float]:
    """Processor time of a process by kind of thread: its main thread, ZMQ's, the others (together)."""
    spent = {"main": 0.0, "zmq": 0.0, "other": 0.0}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name = (task / "comm").read_text()
            seconds = int((task / "schedstat").read_text().split()[0]) / 1e9
        except OSError:  # a thread that ended
            continue
        kind = "zmq" if name.startswith("ZMQ") else "main" if task.name == str(pid) else "other"
        spent[kind] += seconds
    return spent


def processes(front: int) -> dict[str, int]:
    """Role → pid of a system whose parent is ``front``."""
    children = [child for child in psutil.Process(front).children() if "resource_tracker" not in str(child.cmdline())]
    scheduler, detokenizer = sorted(children, key=psutil.Process.create_time)
    return {"front": front, "scheduler": scheduler.pid, "detokenizer": detokenizer.pid}


async def stream_raw(port: int, path: str, body: dict[str, object]) -> list[float]:
    """Arrival time of every event of one streamed answer; as little work as a client can do."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = json.dumps(body).encode()
    fields = f"host: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {len(data)}"
    writer.write(f"POST {path} HTTP/1.1\r\n{fields}\r\n\r\n".encode() + data)
    stamps: list[float] = []
    while block := await reader.read(1 << 16):
        stamps += [time.perf_counter()] * block.count(b"data: ")
    writer.close()
    return stamps


async def ask_http(way: str, port: int, batch: int, tokens: int) -> list[list[float]]:
    """``batch`` requests at once."""
    if way == "native":
        params = {"max_new_tokens": tokens, "ignore_eos": True}
        body: dict[str, object] = {"input_ids": PROMPT, "sampling_params": params, "stream": True}
        path = "/generate"
    else:
        body = {"model": "m", "prompt": PROMPT, "max_tokens": tokens, "ignore_eos": True, "stream": way == "http"}
        path = "/v1/completions"
    return await asyncio.gather(*(stream_raw(port, path, body) for _ in range(batch)))


async def ask_engine(way: str, engine: Engine, batch: int, tokens: int) -> list[list[float]]:
    params = {"max_new_tokens": tokens, "ignore_eos": True}

    async def one() -> list[float]:
        stamps = []
        async for _ in await engine.async_generate(input_ids=PROMPT, sampling_params=params, stream=True):  # type: ignore[union-attr]
            stamps.append(time.perf_counter())
        return stamps

    if way == "engine":
        await engine.async_generate(input_ids=[PROMPT] * batch, sampling_params=params)
        return []
    return await asyncio.gather(*(one() for _ in range(batch)))


def measure(ask: Callable[[int], Awaitable[list[list[float]]]], front: int, args: argparse.Namespace) -> Report:
    """One run after a short one."""

    async def run() -> Report:
        await ask(4)
        pids = processes(front)
        before = {role: cpu_seconds(pid) for role, pid in pids.items()}
        mine, begin = time.process_time(), time.perf_counter()
        stamps = await ask(args.tokens)
        wall = time.perf_counter() - begin
        report: Report = {"tok/s": args.batch * args.tokens / wall, "step ms": wall / args.tokens * 1e3}
        gaps = sorted(b - a for line in stamps for a, b in itertools.pairwise(line[:-2]))
        if gaps:
            report["gap p50 ms"] = statistics.median(gaps) * 1e3
            report["gap p99 ms"] = gaps[int(len(gaps) * 0.99)] * 1e3
        for role, pid in pids.items():
            after = cpu_seconds(pid)
            for kind in ("main", "zmq") if role == "scheduler" else ("main", "zmq", "other"):
                report[f"{role} {kind}"] = (after[kind] - before[role][kind]) / args.tokens * 1e6
        if front != os.getpid():
            report["client"] = (time.process_time() - mine) / args.tokens * 1e6
        return report

    return asyncio.run(run())


def measure_http(way: str, args: argparse.Namespace) -> Report:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    process = subprocess.Popen([sys.executable, __file__, "--serve", str(port), "--model", args.model])
    try:
        while process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", port)) as probe:
                    probe.sendall(b"GET /ready HTTP/1.0\r\n\r\n")
                    if b" 200 " in probe.recv(100):
                        break
            except OSError:
                pass
            time.sleep(0.05)
        return measure(lambda tokens: ask_http(way, port, args.batch, tokens), process.pid, args)
    finally:
        process.terminate()
        process.wait()


def measure_engine(way: str, args: argparse.Namespace) -> Report:
    with FakeEngine(model_path=args.model, **FLAGS) as engine:
        return measure(lambda tokens: ask_engine(way, engine, args.batch, tokens), os.getpid(), args)


def serve(model: str, port: int) -> int:
    """The server with the fake scheduler."""
    server.Launch = partial(Launch, scheduler_entry=fake_scheduler.ENTRY)  # type: ignore[assignment,misc]
    return server.launch_server(ServerArgs(model_path=model, port=port, **FLAGS))  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--cost", default="20,0,0,2", help="ms a step, a decode row, a prefill token; busy threads")
    parser.add_argument("--ways", default="engine,engine-stream,http,native,http-whole")
    parser.add_argument("--model", default="")
    parser.add_argument("--serve", type=int, metavar="PORT", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        sys.exit(serve(args.model, args.serve))
    os.environ[fake_scheduler.COST_VARIABLE] = args.cost
    os.environ[fake_scheduler.BLOCK_VARIABLE] = str(
        fake_scheduler.Burner(max(1, int(args.cost.split(",")[-1]))).calibrate()
    )
    columns = [way for way in args.ways.split(",") if way]
    reports = {way: (measure_engine if way.startswith("engine") else measure_http)(way, args) for way in columns}
    names = list(dict.fromkeys(name for report in reports.values() for name in report))
    print(f"batch {args.batch}, {args.tokens} tokens, cost {args.cost}; processor time in µs a step")
    print(f"{'':20}" + "".join(f"{way:>15}" for way in columns))
    for name in names:
        print(f"{name:20}" + "".join(f"{reports[way].get(name, float('nan')):>15.1f}" for way in columns))


if __name__ == "__main__":
    main()
