"""A real server, started once per set of flags, and a real engine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

REPO = Path(__file__).resolve().parents[2]


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@dataclass
class Server:
    """A running server process."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path
    ready_s: float

    def client(self, **kwargs: object) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=120, **kwargs)  # type: ignore[arg-type]

    def stop(self, signum: int = signal.SIGTERM, timeout: float = 40) -> int:
        """Ask the server to end; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signum)
        try:
            return self.process.wait(timeout)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)


def start_server(tmp: Path, *flags: str, wait: bool = True, env: dict[str, str] | None = None) -> Server:
    """Start ``sglang serve`` on a free port in a process group of its own and wait until it is ready."""
    port = free_port()
    log = tmp / f"server-{port}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "sglang.cli.main", "serve", *flags, "--port", str(port)],
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **(env or {})},
        )
    server = Server(process, f"http://127.0.0.1:{port}", log, 0.0)
    started = time.monotonic()
    while wait:
        if process.poll() is not None or time.monotonic() - started > 180:
            server.stop(signal.SIGKILL)
            raise RuntimeError(f"server did not come up:\n{log.read_text()[-4000:]}")
        try:
            if httpx.get(server.url + "/ready", timeout=5).status_code == 200:
                break
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    server.ready_s = time.monotonic() - started
    return server


@pytest.fixture(scope="session")
def smol_server(smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """SmolLM2 served as ``smollm2`` with a small pool; keeps responses, files and batches."""
    folder = tmp_path_factory.mktemp("server")
    server = start_server(
        folder,
        str(smollm2_gguf),
        "--served-model-name",
        "smollm2",
        "--max-total-tokens",
        "16384",
        "--max-running-requests",
        "64",
        "--enable-response-store",
        "--file-storage-path",
        str(folder / "files"),
    )
    yield server
    assert server.stop() == 0, server.log.read_text()[-4000:]


@pytest.fixture
def client(smol_server: Server) -> Iterator[httpx.Client]:
    with smol_server.client() as http:
        yield http
