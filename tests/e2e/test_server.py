"""The running product: SDK, parallel batches, dropped streams, start and stop."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import openai
import psutil
import pytest

from e2e.conftest import Server, free_port, start_server

CAPITAL = [{"role": "user", "content": "What is the capital of France?"}]


def test_capital_of_france(client: httpx.Client) -> None:
    body = {"model": "smollm2", "messages": CAPITAL, "temperature": 0}
    answer = client.post("/v1/chat/completions", json=body).json()
    assert "Paris" in answer["choices"][0]["message"]["content"]
    assert answer["usage"]["prompt_tokens"] == 37
    assert answer["choices"][0]["finish_reason"] == "stop"


def test_openai_sdk_plain_and_stream(smol_server: Server) -> None:
    sdk = openai.OpenAI(base_url=smol_server.url + "/v1", api_key="none")
    plain = sdk.chat.completions.create(model="smollm2", messages=CAPITAL, temperature=0)  # type: ignore[arg-type]
    stream = sdk.chat.completions.create(
        model="smollm2",
        messages=CAPITAL,  # type: ignore[arg-type]
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    )
    text, usage = "", None
    for chunk in stream:
        usage = chunk.usage or usage
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
    assert text == plain.choices[0].message.content
    assert usage is not None and usage.completion_tokens == plain.usage.completion_tokens  # type: ignore[union-attr]


def test_openai_sdk_64_in_parallel(smol_server: Server) -> None:
    async def main() -> list[str]:
        sdk = openai.AsyncOpenAI(base_url=smol_server.url + "/v1", api_key="none")
        calls = [
            sdk.completions.create(model="smollm2", prompt=f"{i} plus one equals", max_tokens=8, temperature=0)
            for i in range(64)
        ]
        return [answer.choices[0].text for answer in await asyncio.gather(*calls)]

    together = asyncio.run(main())
    with smol_server.client() as http:
        for i in (0, 31, 63):
            body = {"prompt": f"{i} plus one equals", "max_tokens": 8, "temperature": 0}
            assert http.post("/v1/completions", json=body).json()["choices"][0]["text"] == together[i]


def idle_pool(http: httpx.Client) -> dict[str, int]:
    """The load record once nothing runs or waits."""
    for _ in range(200):
        load = http.get("/v1/loads").json()["loads"][0]
        if load["num_running_reqs"] == 0 and load["num_waiting_reqs"] == 0:
            return load
        time.sleep(0.05)
    raise AssertionError(f"still busy: {load}")


def test_streams_dropped_at_random_moments(smol_server: Server) -> None:
    """1,000 streams opened and dropped: nothing leaks and a new request works."""

    async def drop(http: httpx.AsyncClient, rng: random.Random, gate: asyncio.Semaphore) -> None:
        body = {
            "text": " ".join(rng.choice(["red", "green", "blue", "one", "two"]) for _ in range(rng.randrange(1, 60))),
            "sampling_params": {"max_new_tokens": 400, "ignore_eos": True, "temperature": 0},
            "stream": True,
        }
        async with gate:
            if rng.random() < 0.3:  # a connection cut while waiting for the first byte
                try:
                    await asyncio.wait_for(http.post("/generate", json=body), rng.random() * 0.05)
                except (TimeoutError, asyncio.TimeoutError):
                    return
            async with http.stream("POST", "/generate", json=body) as response:
                events = rng.randrange(0, 4)
                async for line in response.aiter_lines():
                    events -= line.startswith("data:")
                    if events < 0:
                        return

    async def main() -> None:
        rng, gate = random.Random(3), asyncio.Semaphore(48)
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=0)
        async with httpx.AsyncClient(base_url=smol_server.url, timeout=120, limits=limits) as http:
            await asyncio.gather(*(drop(http, rng, gate) for _ in range(1000)))

    asyncio.run(main())
    with smol_server.client() as http:
        load = idle_pool(http)
        assert load["num_used_tokens"] == 0, "every used token must be evictable cache, not a leak"
        assert load["kv_available_tokens"] + load["kv_evictable_tokens"] == load["max_total_num_tokens"]
        assert http.post("/flush_cache").status_code == 200
        assert idle_pool(http)["kv_available_tokens"] == load["max_total_num_tokens"]
        body = {"text": "The capital of France is", "sampling_params": {"max_new_tokens": 1, "temperature": 0}}
        assert http.post("/generate", json=body).json()["text"] == " Paris"


def family(server: Server) -> list[psutil.Process]:
    parent = psutil.Process(server.process.pid)
    return [parent, *parent.children(recursive=True)]


def gone(processes: list[psutil.Process], timeout: float) -> bool:
    return not psutil.wait_procs(processes, timeout)[1]


def sockets_left() -> set[str]:
    import tempfile

    return {str(path) for path in Path(tempfile.gettempdir()).glob("sglang*")}


@pytest.fixture
def fresh(smollm2_gguf: Path, tmp_path: Path) -> Server:
    return start_server(tmp_path, str(smollm2_gguf), "--max-total-tokens", "4096")


def long_request(url: str, tokens: int = 60) -> subprocess.Popen[bytes]:
    body = json.dumps(
        {"text": "Once", "sampling_params": {"max_new_tokens": tokens, "ignore_eos": True, "temperature": 0}}
    )
    return subprocess.Popen(
        ["curl", "-s", "-w", "\n%{http_code}", "-d", body, "-H", "content-type: application/json", url + "/generate"],
        stdout=subprocess.PIPE,
    )


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_graceful_stop_finishes_running_requests(fresh: Server, signum: int) -> None:
    before, processes = sockets_left(), family(fresh)
    with fresh.client() as http:
        request = long_request(fresh.url)
        for _ in range(200):
            if http.get("/v1/loads").json()["loads"][0]["num_running_reqs"]:
                break
            time.sleep(0.05)
    assert fresh.stop(signum) == 0
    out = request.communicate(timeout=60)[0].decode()
    assert out.endswith("200"), out[-300:]
    assert json.loads(out.rsplit("\n", 1)[0])["meta_info"]["completion_tokens"] == 60
    assert gone(processes, 5)
    assert not (sockets_left() - before) and len(sockets_left()) <= len(before)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", int(fresh.url.rsplit(":", 1)[1])))


@pytest.mark.parametrize("role", ["scheduler", "detokenizer"])
def test_dead_child_takes_the_system_down(fresh: Server, role: str) -> None:
    processes = family(fresh)
    victim = next(p for p in processes if any(role in part for part in p.cmdline()) or role in p.name())
    request = long_request(fresh.url, 2000)
    victim.kill()
    assert fresh.process.wait(10) != 0
    out = request.communicate(timeout=10)[0].decode()
    assert not out.endswith("200"), "a pending request must end with an error"
    assert gone(processes, 5)
    last = [line for line in fresh.log.read_text().splitlines() if line.strip()][-1]
    assert (role in last and "signal 9" in last.lower()) or "SIGKILL" in last, last


def test_killed_parent_leaves_no_children(fresh: Server) -> None:
    processes = family(fresh)
    fresh.process.kill()
    fresh.process.wait(5)
    assert gone(processes[1:], 5)


def test_port_in_use_is_a_clear_error(smollm2_gguf: Path) -> None:
    port = free_port()
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", port))
        sock.listen()
        done = subprocess.run(
            [sys.executable, "-m", "sglang.cli.main", "serve", str(smollm2_gguf), "--port", str(port)],
            capture_output=True,
            timeout=60,
            check=False,
        )
    assert done.returncode != 0
    assert str(port) in done.stderr.decode() + done.stdout.decode()


def test_engine_without_main_guard_fails_clearly(tmp_path: Path, smollm2_gguf: Path) -> None:
    script = tmp_path / "no_guard.py"
    script.write_text(
        f"import sglang as sgl\nllm = sgl.Engine(model_path={str(smollm2_gguf)!r})\nprint('unreachable')\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, timeout=120, check=False)
    assert done.returncode != 0
    assert '__name__ == "__main__"' in done.stderr.decode()
    assert b"unreachable" not in done.stdout


def test_idle_server_does_not_burn_cpu(smol_server: Server) -> None:
    with smol_server.client() as http:
        idle_pool(http)

    def cpu_s() -> float:
        return sum(sum(p.cpu_times()[:2]) for p in family(smol_server))

    before = cpu_s()
    time.sleep(3)
    assert cpu_s() - before < 0.3


def test_model_without_path_says_which_is_served(tmp_path: Path) -> None:
    server = start_server(tmp_path, "--max-total-tokens", "2048", env={"OMP_NUM_THREADS": str(os.cpu_count())})
    try:
        assert "SmolLM2-135M-Instruct" in server.log.read_text()
        with server.client() as http:
            assert http.get("/v1/models").json()["data"][0]["max_model_len"] == 8192
    finally:
        assert server.stop() == 0
