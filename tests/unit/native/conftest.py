"""The compiled module: as installed, or as built by CMake into build/csrc."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BUILD = Path(__file__).resolve().parents[3] / "build" / "csrc" / "python"


@pytest.fixture(scope="session")
def native() -> ModuleType:
    try:
        return importlib.import_module("sglang._native")
    except ImportError:
        pass
    if not BUILD.is_dir():
        pytest.skip("the native kernels are not built")
    sys.path.insert(0, str(BUILD))
    try:
        return importlib.import_module("_native")
    except ImportError:
        pytest.skip("the native kernels are built for another Python")
    finally:
        sys.path.remove(str(BUILD))


@pytest.fixture(scope="session")
def pool(native: Any) -> Any:
    return native.ThreadPool(2)


@pytest.fixture(params=["avx512", "avx2", "neon", "portable"])
def isa(request: pytest.FixtureRequest, native: Any) -> str:
    name = str(request.param)
    if name not in native.instruction_sets():
        pytest.skip(f"no {name} on this machine")
    return name
