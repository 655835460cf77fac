"""Who is compared with the reference, with everything that decides about their numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import sglang.executor
from benchmarks.accuracy.llama_cpp import LlamaCpp, find_library, system_info
from benchmarks.accuracy.native import Native
from benchmarks.accuracy.store import digest_of_files, digest_of_settings
from sglang.executor.host import cores
from sglang.ops.native import load_kernels

OURS, PEER = "sglang", "llama.cpp"
CHUNK = 256
"""Tokens of one call: a prompt in chunks, as a server computes it."""
PACKAGES = ("executor", "layers", "loader", "models", "ops")
"""Folders of ours that decide about numbers, besides the kernels."""


class Logits(Protocol):
    def logits(self, ids: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.float32]]:
        """``[<= chunk, vocab]`` for all positions of one sequence, in order; each valid until the next."""
        ...


@dataclass(frozen=True)
class Side:
    """One line of the table."""

    name: str
    settings: dict[str, Any]
    open: Callable[[], contextlib.AbstractContextManager[Logits]]
    """Loads the model."""

    @property
    def digest(self) -> str:
        """Differs where numbers may differ."""
        return digest_of_settings({"name": self.name, **self.settings})


def ours(model: Path, floats: Path, context: int, kv: list[str], quantizations: list[str]) -> Iterator[Side]:
    """Default settings first, then each of the other KV types, then the folder ``floats`` quantized at load."""
    code = digest_of_files(our_files())
    variants: list[tuple[Path, dict[str, Any]]] = [(model, {})]
    variants += [(model, {"kv_cache_dtype": name}) for name in kv]
    variants += [(floats, {"quantization": name}) for name in quantizations]
    for path, flags in variants:
        name = " ".join([OURS, *(f"--{key.replace('_', '-')} {value}" for key, value in flags.items())])
        yield Side(name, {"flags": flags, "code": code}, partial(_native, path, context, flags))


def _native(path: Path, context: int, flags: dict[str, Any]) -> contextlib.AbstractContextManager[Logits]:
    return contextlib.nullcontext(Native(path, context, CHUNK, **flags))


def our_files() -> list[Path]:
    root, kernels = Path(sglang.executor.__path__[0]).parent, load_kernels()
    if kernels is None or kernels.__file__ is None:
        raise SystemExit("the native kernels are not built; make setup builds them")
    return [Path(kernels.__file__), *(file for name in PACKAGES for file in sorted((root / name).rglob("*.py")))]


def llama_cpp(model: Path, context: int, flashes: list[str]) -> Iterator[Side]:
    """With each kind of attention, if llama.cpp is installed at all."""
    library = find_library()
    if library is None:
        return
    build = digest_of_files(sorted(library.parent.glob("lib*.so")))
    for flash in flashes:
        settings = {"flash_attention": flash, "build": build, "system": system_info()}
        yield Side(f"{PEER} -fa {flash}", settings, partial(LlamaCpp, model, context, CHUNK, cores(), flash=flash))
