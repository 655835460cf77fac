"""The compiled module: as installed, or as CMake built it into build/csrc; first of all SGLANG_NATIVE_BUILD."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BUILD = Path(__file__).resolve().parents[3] / "build" / "csrc" / "python"


def load() -> ModuleType:
    """Raises ImportError."""
    chosen = os.environ.get("SGLANG_NATIVE_BUILD")
    if chosen is None:
        try:
            return importlib.import_module("sglang._native")
        except ImportError:
            pass
    path = chosen or str(BUILD)
    sys.path.insert(0, path)
    try:
        return importlib.import_module("_native")
    finally:
        sys.path.remove(path)


@pytest.fixture(scope="session")
def native() -> ModuleType:
    try:
        return load()
    except ImportError:
        pytest.skip("the native kernels are not built for this Python")


@pytest.fixture(scope="session")
def pool(native: Any) -> Any:
    return native.ThreadPool(2)


@pytest.fixture(params=["avx512", "avx2", "neon", "portable"])
def isa(request: pytest.FixtureRequest, native: Any) -> str:
    name = str(request.param)
    if name not in native.instruction_sets():
        pytest.skip(f"no {name} on this machine")
    return name
