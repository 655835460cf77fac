"""Where layers get their weights: a contract that loaders fulfil.

Models are built straight from a source: a layer asks for tensors by their Hugging Face names and says the shape it
needs. A source that can't serve a request notes the fault and hands out an empty stand-in, so that all faults of a
checkpoint are found in one pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sglang.ops.interface import Ops, Weight

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class CheckpointRules:
    """How a family's checkpoints differ from the names its layers ask for. Data, no code."""

    prefixes: tuple[tuple[str, str], ...] = ()
    """(prefix in the checkpoint, replacement); the first that matches is applied, once."""
    ignored: tuple[str, ...] = ()
    """Regular expressions, matched at the start, of tensors (after renaming) that may be left over."""


class WeightSource(Protocol):
    """Weights by name, in compute dtype and on the device of ``ops``."""

    ops: Ops
    dtype: str
    """Compute dtype: float32, bfloat16 or float16."""

    def has(self, name: str) -> bool:
        """Whether the checkpoint holds a tensor of this name."""
        ...

    def matrix(self, parts: Sequence[tuple[str, int]], columns: int) -> Weight:
        """One weight ``[sum of rows, columns]`` stacked from ``(name, rows)`` parts."""
        ...

    def vector(self, parts: Sequence[tuple[str, int]], *, dtype: str | None = None) -> Tensor:
        """One vector joined from ``(name, length)`` parts; in compute dtype unless ``dtype`` says otherwise."""
        ...
