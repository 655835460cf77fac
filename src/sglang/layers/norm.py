"""Root-mean-square normalisation over the last dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sglang.layers.weight_source import WeightSource

if TYPE_CHECKING:
    from torch import Tensor


class RMSNorm:
    """``offset`` is added to the stored weight once, at load: gemma checkpoints hold ``w`` where ``1 + w`` is meant."""

    def __init__(self, weights: WeightSource, name: str, size: int, eps: float, *, offset: float = 0.0) -> None:
        self.ops = weights.ops
        self.eps = eps
        stored = weights.vector([(f"{name}.weight", size)], dtype="float32")
        self.weight = stored + offset if offset else stored

    def __call__(self, x: Tensor) -> Tensor:  # [..., size]
        return self.ops.rms_norm(x, self.weight, self.eps)

    def with_residual(self, x: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:
        """``(norm(x + residual), x + residual)``."""
        return self.ops.add_rms_norm(x, residual, self.weight, self.eps)
