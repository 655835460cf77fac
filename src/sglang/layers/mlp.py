"""The gated feed-forward block: ``down(act(gate(x)) * up(x))``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sglang.layers.linear import Linear
from sglang.layers.weight_source import WeightSource

if TYPE_CHECKING:
    from torch import Tensor

ACTIVATIONS = ("silu", "gelu_pytorch_tanh")


class GatedMLP:
    """Gate and up projections are one matrix; ``fused`` says that the checkpoint stores them as one already."""

    def __init__(
        self,
        weights: WeightSource,
        name: str,
        hidden: int,
        inner: int,
        activation: str,
        *,
        bias: bool = False,
        fused: bool = False,
    ) -> None:
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"activation {activation!r} is not supported in a gated MLP; supported: {', '.join(ACTIVATIONS)}"
            )
        gate_up = (
            [(f"{name}.gate_up_proj", 2 * inner)]
            if fused
            else [(f"{name}.gate_proj", inner), (f"{name}.up_proj", inner)]
        )
        self.activation = activation
        self.gate_up = Linear(weights, gate_up, hidden, bias=bias)
        self.down = Linear(weights, [(f"{name}.down_proj", hidden)], inner, bias=bias)
        self.ops = weights.ops

    def __call__(self, x: Tensor) -> Tensor:
        act = self.ops.silu_and_mul if self.activation == "silu" else self.ops.gelu_tanh_and_mul
        return self.down(act(self.gate_up(x)))
