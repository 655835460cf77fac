"""Matrix layers: projections (several checkpoint matrices may form one), embedding table and output head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sglang.layers.weight_source import WeightSource
from sglang.ops.interface import Ops, Weight

if TYPE_CHECKING:
    from torch import Tensor


class Linear:
    """``x @ W.T + b`` with W stacked from ``(module name, rows)`` parts, e.g. q, k and v projections."""

    def __init__(self, weights: WeightSource, parts: Sequence[tuple[str, int]], columns: int, *, bias: bool) -> None:
        self.ops = weights.ops
        self.weight = weights.matrix([(f"{name}.weight", rows) for name, rows in parts], columns)
        self.bias = weights.vector([(f"{name}.bias", rows) for name, rows in parts]) if bias else None

    def __call__(self, x: Tensor) -> Tensor:  # [T, columns] -> [T, rows]
        return self.ops.linear(x, self.weight, self.bias)


class Embedding:
    """Token vectors, optionally scaled (gemma)."""

    def __init__(self, weights: WeightSource, name: str, rows: int, columns: int, *, scale: float = 1.0) -> None:
        self.ops = weights.ops
        self.weight = weights.matrix([(f"{name}.weight", rows)], columns)
        self.scale = scale

    def __call__(self, ids: Tensor) -> Tensor:  # [T] -> [T, columns]
        vectors = self.ops.embedding(ids, self.weight)
        return vectors if self.scale == 1.0 else vectors * self.scale


class OutputHead:
    """Hidden states to float32 logits, with a matrix of its own or the embedding's."""

    def __init__(self, ops: Ops, weight: Weight, *, logit_cap: float | None = None) -> None:
        self.ops = ops
        self.weight = weight
        self.logit_cap = logit_cap

    def __call__(self, hidden: Tensor) -> Tensor:  # [n, hidden] -> [n, vocab]
        logits = self.ops.linear(hidden, self.weight).float()
        return logits if self.logit_cap is None else self.ops.soft_cap(logits, self.logit_cap)
