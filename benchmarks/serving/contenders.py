"""Who is measured: servers behind HTTP, and programs that hold the model themselves."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks.serving import workloads
from benchmarks.serving.client import Client, ServerSaidNo
from benchmarks.serving.memory import Memory, busy_seconds, memory_of, processor_seconds
from benchmarks.serving.stats import summary
from benchmarks.serving.workloads import Workload

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT = 180.0


@dataclass(slots=True)
class Measured:
    """``numbers``: the summary and who used how much processor; ``prompts`` and ``warm`` only from HTTP runs."""

    numbers: dict[str, Any]
    prompts: list[str] = field(default_factory=list)
    warm: list[str] = field(default_factory=list)


class Contender(Protocol):
    name: str

    async def measure(self, workload: Workload, seed: str, scale: float) -> Measured: ...

    def stop(self) -> None: ...


class Watch:
    """Wall time, this process's and all processes' processor time while it is entered."""

    def __enter__(self) -> Watch:
        self.wall, self.own, self.all = time.perf_counter(), time.process_time(), busy_seconds()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall = time.perf_counter() - self.wall
        self.own = time.process_time() - self.own
        self.all = busy_seconds() - self.all

    def cores(self, measured: float) -> dict[str, float]:
        """Cores used by the generator, by what was measured, and by everybody else: that should be next to none."""
        others = max(0.0, self.all - self.own - measured)
        used = {"client_cores": self.own, "server_cores": measured, "other_cores": others}
        return {name: seconds / self.wall for name, seconds in used.items()}


def children_seconds() -> float:
    """Processor time of all child processes that have ended, and theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def wait_for_calm(patience: float, cores: float) -> None:
    """Until all processes together use less than ``cores`` for a second, or ``patience`` seconds have passed."""
    end = time.perf_counter() + patience
    while time.perf_counter() < end:
        before = busy_seconds()
        await asyncio.sleep(1)
        if busy_seconds() - before < cores:
            return


class HttpServer:
    """A server that is started when it is first needed, and again when a workload wants other ``slots``.

    ``command``: its command line for a port and a number of slots. ``slotted``: slots matter to it.
    """

    def __init__(
        self, name: str, command: Callable[[int, int], list[str]], slotted: bool, env: dict[str, str] | None = None
    ) -> None:
        self.name, self._command, self._slotted = name, command, slotted
        self._env = {**os.environ, **(env or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Client | None = None
        self._slots = 0
        self._log = Path(tempfile.mkstemp(prefix="bench-", suffix=".log")[1])
        self.ready_seconds: list[float] = []

    async def measure(self, workload: Workload, seed: str, scale: float) -> Measured:
        client = await self.ensure(workload.slots if self._slotted else 1)
        assert self._process is not None
        before = processor_seconds(self._process.pid)
        with Watch() as watch:
            run = await workloads.run(workload, client.send, seed, scale)
        server = processor_seconds(self._process.pid) - before
        numbers = {**summary(run), **watch.cores(server)}
        numbers["memory"] = dataclasses.asdict(self.read_memory())
        return Measured(numbers, [reply.prompt for reply in run.replies], run.warm)

    def read_memory(self) -> Memory:
        """Of the running server."""
        assert self._process is not None
        return memory_of(self._process.pid)

    async def ensure(self, slots: int = 1) -> Client:
        """The client of a running server with so many slots; ``ready_seconds`` grows by each start."""
        if self._client is not None and slots == self._slots:
            return self._client
        self.stop()
        port = free_port()
        with self._log.open("wb") as log:
            start = time.perf_counter()
            self._process = subprocess.Popen(
                self._command(port, slots), stdout=log, stderr=subprocess.STDOUT, env=self._env, cwd=ROOT
            )
        client = Client(f"http://127.0.0.1:{port}", "")
        await self._wait_until_ready(client, start)
        self.ready_seconds.append(time.perf_counter() - start)
        client.model = (await client.get("/v1/models"))["data"][0]["id"]
        self._client, self._slots = client, slots
        return client

    async def _wait_until_ready(self, client: Client, start: float) -> None:
        assert self._process is not None
        trouble = f"was not ready within {START_TIMEOUT:.0f} s"
        while time.perf_counter() - start < START_TIMEOUT:
            if self._process.poll() is not None:
                trouble = f"ended with {self._process.returncode}"
                break
            with contextlib.suppress(OSError, ServerSaidNo, json.JSONDecodeError):
                await client.get("/health")
                return
            await asyncio.sleep(0.02)
        tail = self._log.read_text(errors="replace")[-2000:]
        self.stop()
        raise RuntimeError(f"{self.name} {trouble}; the end of its output:\n{tail}")

    def stop(self) -> None:
        process, self._process, self._client = self._process, None, None
        if process is not None:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class RunningServer:
    """A server that somebody else started."""

    def __init__(self, name: str, url: str, model: str) -> None:
        self.name, self._client = name, Client(url, model)

    async def measure(self, workload: Workload, seed: str, scale: float) -> Measured:
        if not self._client.model:
            self._client.model = (await self._client.get("/v1/models"))["data"][0]["id"]
        with Watch() as watch:
            run = await workloads.run(workload, self._client.send, seed, scale)
        numbers = {**summary(run), "client_cores": watch.own / watch.wall}
        return Measured(numbers, [reply.prompt for reply in run.replies], run.warm)

    def stop(self) -> None:
        """Nothing: it is not ours."""


class InProcess:
    """A program started for each workload; its last line of output is the JSON of the summary.

    Called as ``command... --workload NAME --seed S --scale X``.
    """

    def __init__(self, name: str, command: list[str], env: dict[str, str] | None = None) -> None:
        self.name, self._command = name, command
        self._env = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}

    async def measure(self, workload: Workload, seed: str, scale: float) -> Measured:
        command = [*self._command, "--workload", workload.name, "--seed", seed, "--scale", str(scale)]
        before = children_seconds()
        with Watch() as watch:
            process = await asyncio.create_subprocess_exec(
                *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self._env, cwd=ROOT
            )
            out, errors = await process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"{self.name} ended with {process.returncode}:\n{errors.decode()[-2000:]}")
        numbers = json.loads(out.decode().strip().splitlines()[-1])
        return Measured({**numbers, "other_cores": watch.cores(children_seconds() - before)["other_cores"]})

    def stop(self) -> None:
        """Nothing: each program ends by itself."""


def sglang_server(model: Path, flags: list[str], name: str = "sglang") -> HttpServer:
    """This project's server."""

    def command(port: int, slots: int) -> list[str]:
        return [sys.executable, "-m", "sglang", "serve", str(model), "--port", str(port), *flags]

    return HttpServer(name, command, slotted=False)


def sglang_engine(model: Path) -> InProcess:
    """This project's engine, without HTTP."""
    return InProcess("Engine", [sys.executable, "-m", "benchmarks.serving.engine_driver", str(model)])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
