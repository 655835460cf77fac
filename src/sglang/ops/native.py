"""The native kernels as a packing backend: weights become tiles of the instruction set at hand, blocks stay blocks.

Models are built on it like on any other backend, but never called: ``executor.record`` reads their structure and
records it as one native program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from sglang.formats.ggml_types import GGMLType
from sglang.formats.raw import RawTensor, narrowed

QUANTIZATIONS = {"int8": "int8", "w8a8_int8": "int8", "int4": "int4"}
"""--quantization -> what dense weights become while they are packed; activations are int8 then."""
DENSE = frozenset({GGMLType.F32, GGMLType.F16, GGMLType.BF16})
VOCABULARY = ("embed_tokens.weight", "lm_head.weight")
"""Ends of the names of matrices with a row for each token. They keep 8 bits at least: with 4 the logits themselves are
rough, and a small model's perplexity rises by 7 percent."""
GROUP = 32
"""Weights that share a scale once quantized; rows of another multiple stay dense."""
SPIN_US = 50
"""How long an idle thread watches for work before it sleeps: longer than the gaps within a step, and no more."""


class NotRecordable(ValueError):
    """The kernels can't run this model; the reference backend can."""


def load_kernels() -> ModuleType | None:
    """The extension module, or None where it was not built or doesn't load."""
    try:
        return import_module("sglang._native")
    except ImportError:
        return None


@dataclass(frozen=True, slots=True)
class NativeWeight:
    """Packed matrices of equal depth, stacked."""

    parts: tuple[Any, ...]
    """``_native.Weight`` each."""

    @property
    def out_features(self) -> int:
        return sum(int(part.n) for part in self.parts)

    @property
    def in_features(self) -> int:
        return int(self.parts[0].k)

    @property
    def nbytes(self) -> int:
        return sum(int(part.nbytes) for part in self.parts)


class NativeOps:
    """Packs weights for the kernels (:class:`sglang.ops.interface.Ops`, without operations that compute at once)."""

    def __init__(self, kernels: ModuleType, threads: int, *, quantization: str | None = None) -> None:
        """``quantization``: what dense matrices become; None leaves them as stored."""
        self.kernels = kernels
        self.quantization = QUANTIZATIONS.get(quantization or "")
        self.pool = kernels.ThreadPool(threads, SPIN_US)
        self.arena = kernels.WeightArena()

    def pack(self, parts: Sequence[RawTensor], dtype: str) -> NativeWeight:
        """Matrices keep the type they are stored in and are multiplied in float32, whatever ``dtype`` says."""
        return NativeWeight(tuple(self._pack(part) for part in parts))

    def upload(self, values: npt.NDArray[np.float32], dtype: str) -> npt.NDArray[np.float32]:
        """Vectors stay on the host in float32, which holds every value of every other type."""
        return np.ascontiguousarray(values, np.float32)

    def _pack(self, part: RawTensor) -> Any:
        rows, columns = part.shape
        if part.offset:
            part = replace(part, kind=GGMLType.F32, read=lambda: narrowed(part.dense()), row_order=None, offset=0.0)
        if part.kind in DENSE and self.quantization is not None and columns % GROUP == 0:
            kind = "int8" if part.name.endswith(VOCABULARY) else self.quantization
            return self.kernels.quantize(self.pool, part.dense(), kind, self.arena)
        stored = np.ascontiguousarray(part.rows()).reshape(-1)
        return self.kernels.pack(self.pool, int(part.kind), stored, rows, columns, self.arena)
