"""The weight source that a model is built from: finds tensors by name, checks shapes, keeps the books."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sglang.formats.raw import RawTensor, stand_in
from sglang.layers.weight_source import CheckpointRules
from sglang.loader.errors import LoadError
from sglang.ops.interface import Ops, Weight

if TYPE_CHECKING:
    from torch import Tensor

ALWAYS_IGNORED = (r".*rotary_emb\.inv_freq$", r"rope_factors_(long|short)\.weight$")
"""Left over in old checkpoints of many families and recomputed; read from GGUF files along with the config."""
LISTED = 20
"""Most names of one kind of fault that a message lists."""


class Checkpoint:
    """Implements :class:`sglang.layers.weight_source.WeightSource` over tensors opened from files."""

    def __init__(
        self,
        tensors: Mapping[str, RawTensor],
        rules: CheckpointRules,
        ops: Ops,
        dtype: str,
        on_read: Callable[[], object] = lambda: None,
    ) -> None:
        """``on_read`` is called after each tensor that was read, for progress."""
        self.ops = ops
        self.dtype = dtype
        self._tensors = {_renamed(name, rules): tensor for name, tensor in tensors.items()}
        self._ignored = [re.compile(pattern) for pattern in (*ALWAYS_IGNORED, *rules.ignored)]
        self._on_read = on_read
        self._used: set[str] = set()
        self._missing: list[str] = []
        self._misshapen: list[str] = []

    def has(self, name: str) -> bool:
        return name in self._tensors

    def matrix(self, parts: Sequence[tuple[str, int]], columns: int) -> Weight:
        found = [self._take(name, (rows, columns)) for name, rows in parts]
        if any(tensor is None for tensor in found):
            return self.ops.pack([stand_in(parts[0][0], (0, columns))], self.dtype)
        weight = self.ops.pack([tensor for tensor in found if tensor is not None], self.dtype)
        self._count(len(parts))
        return weight

    def vector(self, parts: Sequence[tuple[str, int]], *, dtype: str | None = None) -> Tensor:
        found = [self._take(name, (length,)) for name, length in parts]
        values = [np.empty(0, np.float32) if tensor is None else tensor.dense() for tensor in found]
        self._count(len(parts))
        return self.ops.upload(np.concatenate(values), dtype or self.dtype)

    def finish(self, where: str) -> None:
        """Raise :class:`LoadError` unless every request was served and every tensor was asked for."""
        left_over = [
            name
            for name in self._tensors
            if name not in self._used and not any(pattern.match(name) for pattern in self._ignored)
        ]
        faults = [
            f"{what} ({len(names)}): {_listing(names)}"
            for what, names in (
                ("missing", self._missing),
                ("of another shape than the config asks for", self._misshapen),
                ("left over", left_over),
            )
            if names
        ]
        if faults:
            raise LoadError(
                f"{where} doesn't fit its model. Tensors " + "; tensors ".join(faults) + ". "
                "Check that the weights are complete and belong to this config."
            )

    def _take(self, name: str, shape: tuple[int, ...]) -> RawTensor | None:
        """The tensor if it is usable; the books are kept either way. After a first fault nothing is read any more."""
        tensor = self._tensors.get(name)
        if tensor is None:
            self._missing.append(name)
            return None
        self._used.add(name)
        if tuple(tensor.shape) != shape:
            self._misshapen.append(f"{name} has {list(tensor.shape)}, needed {list(shape)}")
        return None if self._missing or self._misshapen else tensor

    def _count(self, tensors: int) -> None:
        for _ in range(tensors):
            self._on_read()


def _renamed(name: str, rules: CheckpointRules) -> str:
    for prefix, replacement in rules.prefixes:
        if name.startswith(prefix):
            return replacement + name[len(prefix) :]
    return name


def _listing(names: Sequence[str]) -> str:
    shown = ", ".join(names[:LISTED])
    return shown if len(names) <= LISTED else f"{shown} and {len(names) - LISTED} more"
