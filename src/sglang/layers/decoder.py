"""Transformer blocks. All share one signature: ``block(x, residual, ctx) -> (x, residual)``.

``residual`` carries the sum so far; ``x`` is what the last sub-block wants to add. The first block gets None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sglang.layers.attention import Attention
from sglang.layers.norm import RMSNorm

if TYPE_CHECKING:
    from torch import Tensor

    from sglang.layers.forward_context import ForwardContext


class MLP(Protocol):
    def __call__(self, x: Tensor) -> Tensor: ...


class Block(Protocol):
    def __call__(self, x: Tensor, residual: Tensor | None, ctx: ForwardContext) -> tuple[Tensor, Tensor]: ...


class PreNormBlock:
    """Norm before attention and before the MLP (llama and most others)."""

    def __init__(self, input_norm: RMSNorm, attention: Attention, mlp_norm: RMSNorm, mlp: MLP) -> None:
        self.input_norm = input_norm
        self.attention = attention
        self.mlp_norm = mlp_norm
        self.mlp = mlp

    def __call__(self, x: Tensor, residual: Tensor | None, ctx: ForwardContext) -> tuple[Tensor, Tensor]:
        x, residual = enter(self.input_norm, x, residual)
        x, residual = self.mlp_norm.with_residual(self.attention(x, ctx), residual)
        return self.mlp(x), residual


class SandwichBlock:
    """Norms before and after both sub-blocks (gemma 2 and 3)."""

    def __init__(
        self,
        input_norm: RMSNorm,
        attention: Attention,
        attention_out_norm: RMSNorm,
        mlp_norm: RMSNorm,
        mlp: MLP,
        mlp_out_norm: RMSNorm,
    ) -> None:
        self.input_norm = input_norm
        self.attention = attention
        self.attention_out_norm = attention_out_norm
        self.mlp_norm = mlp_norm
        self.mlp = mlp
        self.mlp_out_norm = mlp_out_norm

    def __call__(self, x: Tensor, residual: Tensor | None, ctx: ForwardContext) -> tuple[Tensor, Tensor]:
        x, residual = enter(self.input_norm, x, residual)
        x, residual = self.mlp_norm.with_residual(self.attention_out_norm(self.attention(x, ctx)), residual)
        return self.mlp_out_norm(self.mlp(x)), residual


def enter(norm: RMSNorm, x: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
    """Norm of the running sum, and the sum."""
    return (norm(x), x) if residual is None else norm.with_residual(x, residual)
