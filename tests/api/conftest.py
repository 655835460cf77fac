"""Real servers for the official SDKs, each started once a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.conftest import Server, start_server

API_KEY = "sk-test"


@pytest.fixture(scope="session")
def smol_api(smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """SmolLM2 served as ``smollm2``; asks for :data:`API_KEY`."""
    flags = ["--served-model-name", "smollm2", "--max-total-tokens", "16384", "--api-key", API_KEY]
    server = start_server(tmp_path_factory.mktemp("smol-api"), str(smollm2_gguf), *flags)
    yield server
    assert server.stop() == 0, server.log.read_text()[-4000:]


@pytest.fixture(scope="session")
def qwen_api(qwen25_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Qwen2.5-Coder-0.5B-Instruct served as ``qwen``, with its tool calls read; open to all."""
    flags = [
        "--served-model-name",
        "qwen",
        "--max-total-tokens",
        "16384",
        "--tool-call-parser",
        "qwen25",
        "--enable-cache-report",
    ]
    server = start_server(tmp_path_factory.mktemp("qwen-api"), str(qwen25_gguf), *flags)
    yield server
    assert server.stop() == 0, server.log.read_text()[-4000:]


@pytest.fixture(scope="session")
def qwen_server(qwen_api: Server) -> Server:
    """The same server."""
    return qwen_api


@pytest.fixture(scope="session")
def stateful_api(smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """SmolLM2 served as ``smollm2`` by a server that keeps responses, files and batches."""
    folder = tmp_path_factory.mktemp("stateful-api")
    flags = [
        "--served-model-name", "smollm2", "--max-total-tokens", "16384", "--enable-response-store",
        "--file-storage-path", str(folder / "files"), "--completion-template", "star_coder",
    ]  # fmt: skip
    server = start_server(folder, str(smollm2_gguf), *flags)
    yield server
    assert server.stop() == 0, server.log.read_text()[-4000:]
