"""``launch_server`` as a process: ready line, probes while starting, graceful and hard stops, failures."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from sglang.api.graceful import READY_LINE

TESTS = Path(__file__).parents[2]


class Process:
    """A server process whose stdout is read line by line."""

    def __init__(self, *flags: str, scheme: str = "http") -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = int(probe.getsockname()[1])
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "unit.api.serve_fake", str(self.port), *flags]
        environ = {**os.environ, "PYTHONPATH": str(TESTS)}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ, cwd=TESTS
        )

    def wait_for(self, text: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if text in line:
                return
        raise AssertionError(f"{text!r} never came: {self.process.communicate()[1]}")

    def end(self) -> tuple[int, str, list[str]]:
        """Exit status, rest of stdout, lines of stderr."""
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, [line for line in err.splitlines() if line.strip()]


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def make(*flags: str, ready: bool = True, **kwargs: Any) -> Process:
        started.append(Process(*flags, **kwargs))
        if ready:
            started[-1].wait_for(READY_LINE)
        return started[-1]

    yield make
    for server in started:
        if server.process.poll() is None:
            server.process.kill()
            server.process.communicate()


class Call(threading.Thread):
    """One request in the background; the constructor returns once the server works on it."""

    def __init__(self, server: Process, text: str) -> None:
        super().__init__(daemon=True)
        self.url, self.text = server.url, text
        self.result: httpx.Response | Exception | None = None
        self.start()
        with httpx.Client(base_url=server.url) as client:
            while not client.get("/v1/loads").json()["loads"][0]["num_running_reqs"]:
                pass

    def run(self) -> None:
        try:
            self.result = httpx.post(self.url + "/generate", json={"text": self.text}, timeout=20)
        except httpx.HTTPError as error:
            self.result = error


def test_answers_503_while_loading_and_says_when_it_is_ready(start: Callable[..., Process]) -> None:
    server = start("model_path=0.5", ready=False)
    server.wait_for("launching")
    for _ in range(100):
        try:
            response = httpx.get(server.url + "/health")
            break
        except httpx.ConnectError:
            continue
    assert response.status_code == 503
    server.wait_for(READY_LINE)
    assert httpx.get(server.url + "/health").status_code == 200
    answer = httpx.post(server.url + "/generate", json={"text": "Hi"}).json()
    assert answer["text"] == " Paris.\n\nThe"
    server.process.send_signal(signal.SIGTERM)
    status, out, _ = server.end()
    assert (status, out) == (0, "system shut down\n")
    socket.create_server(("127.0.0.1", server.port)).close()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_running_requests_finish_and_new_ones_are_turned_away(start: Callable[..., Process], signum: int) -> None:
    server = start()
    call = Call(server, "slow")
    with httpx.Client(base_url=server.url) as client:
        server.process.send_signal(signum)
        statuses = set()
        for _ in range(1000):
            statuses.add(client.get("/ready").status_code)
            if 503 in statuses:
                break
        assert client.post("/generate", json={"text": "Hi"}).status_code == 503
        assert client.get("/health").status_code == 503
    status, out, _ = server.end()
    call.join(5)
    assert isinstance(call.result, httpx.Response)
    assert call.result.status_code == 200
    assert call.result.json()["text"] == "x" * 20
    assert (status, out) == (0, "system shut down\n")


def test_second_signal_does_not_wait(start: Callable[..., Process]) -> None:
    server = start()
    call = Call(server, "stuck")
    server.process.send_signal(signal.SIGTERM)
    with httpx.Client(base_url=server.url) as client:
        while client.get("/ready").status_code != 503:
            pass
    server.process.send_signal(signal.SIGTERM)
    status, out, _ = server.end()
    call.join(5)
    assert (status, out) == (0, "system shut down\n")
    assert not isinstance(call.result, httpx.Response) or call.result.status_code >= 500


def test_failure_ends_the_server_with_its_reason_last(start: Callable[..., Process]) -> None:
    server = start()
    response = httpx.post(server.url + "/generate", json={"text": "die"})
    assert response.status_code == 500
    status, out, errors = server.end()
    assert (status, out) == (1, "system shut down\n")
    assert errors[-1] == "error: the scheduler process was ended by SIGKILL"


def test_failed_start_says_why(start: Callable[..., Process]) -> None:
    status, _, errors = start("served_model_name=missing", ready=False).end()
    assert status == 1
    assert errors[-1] == "error: the scheduler process could not start: no such model"


def test_signal_while_loading_stops_at_once(start: Callable[..., Process]) -> None:
    server = start("model_path=30", ready=False)
    server.wait_for("launching")
    server.process.send_signal(signal.SIGTERM)
    assert server.end()[0] == 0


def test_taken_port_is_named(start: Callable[..., Process]) -> None:
    server = start()
    command = [sys.executable, "-m", "unit.api.serve_fake", str(server.port)]
    environ = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=TESTS, timeout=20, check=False)
    assert done.returncode == 1
    assert str(server.port) in done.stderr.splitlines()[-1]
    assert "launching" not in done.stdout


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")
def test_tls(start: Callable[..., Process], tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1"]
    subprocess.run([*make, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    server = start(f"ssl_keyfile={key}", f"ssl_certfile={certificate}", scheme="https")
    assert httpx.get(server.url + "/ready", verify=False).status_code == 200
    server.process.send_signal(signal.SIGTERM)
    assert server.end()[0] == 0
    certificate.write_text("no certificate")
    status, _, errors = start(f"ssl_keyfile={key}", f"ssl_certfile={certificate}", ready=False).end()
    assert status == 1
    assert errors[-1].startswith("error: can't listen")
