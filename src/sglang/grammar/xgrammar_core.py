"""Loads the native part of xgrammar without the Python part around it.

``import xgrammar`` brings in torch and transformers: seconds and hundreds of megabytes that nothing here needs, paid
by the first request with a grammar. The native library only needs numpy arrays.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
import types
from typing import Any

_lock = threading.Lock()
_core: Any = None


def load_core() -> Any:
    """The native classes: TokenizerInfo, GrammarCompiler, GrammarMatcher. Thread-safe."""
    global _core
    with _lock:
        if _core is None:
            _core = _load()
        return _core


def _load() -> Any:
    if "xgrammar" not in sys.modules:
        spec = importlib.util.find_spec("xgrammar")
        if spec is None or spec.submodule_search_locations is None:
            raise ImportError("the package xgrammar is not installed")
        _import_tvm_ffi()
        package = types.ModuleType("xgrammar")
        package.__path__ = list(spec.submodule_search_locations)
        package.__spec__ = spec
        sys.modules["xgrammar"] = package
        try:
            importlib.import_module("xgrammar.load_binding")
            return importlib.import_module("xgrammar.base")._core
        except Exception:  # laid out in another way than we know: take the long way
            for name in [name for name in sys.modules if name.partition(".")[0] == "xgrammar"]:
                del sys.modules[name]
    return importlib.import_module("xgrammar.base")._core


def _import_tvm_ffi() -> None:
    """The library below xgrammar imports torch if it can, for tensors that we don't have."""
    os.environ.setdefault("TVM_FFI_DISABLE_TORCH_C_DLPACK", "1")
    if "torch" in sys.modules:
        importlib.import_module("tvm_ffi")
        return
    sys.modules["torch"] = None  # type: ignore[assignment]  # "not installed", for this one import
    try:
        importlib.import_module("tvm_ffi")
    finally:
        del sys.modules["torch"]
