"""Self-attention over the paged pool: project, rotate, store, attend, project back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sglang.layers.linear import Linear
from sglang.layers.rotary import Rotary
from sglang.layers.weight_source import WeightSource
from sglang.ops.interface import AttentionSpec

if TYPE_CHECKING:
    from torch import Tensor

    from sglang.layers.forward_context import ForwardContext
    from sglang.layers.norm import RMSNorm


class Attention:
    """One layer's attention; ``layer`` is its index in the KV pool.

    ``fused`` says that the checkpoint stores q, k and v as one matrix already. ``q_norm`` and ``k_norm`` act on each
    head before rotation.
    """

    def __init__(
        self,
        weights: WeightSource,
        name: str,
        layer: int,
        hidden: int,
        spec: AttentionSpec,
        rotary: Rotary,
        *,
        qkv_bias: bool = False,
        out_bias: bool = False,
        fused: bool = False,
        q_norm: RMSNorm | None = None,
        k_norm: RMSNorm | None = None,
    ) -> None:
        q_size, kv_size = spec.num_heads * spec.head_dim, spec.num_kv_heads * spec.head_dim
        parts = (
            [(f"{name}.qkv_proj", q_size + 2 * kv_size)]
            if fused
            else [(f"{name}.q_proj", q_size), (f"{name}.k_proj", kv_size), (f"{name}.v_proj", kv_size)]
        )
        self.layer = layer
        self.spec = spec
        self.sizes = [q_size, kv_size, kv_size]
        self.rotary = rotary
        self.qkv = Linear(weights, parts, hidden, bias=qkv_bias)
        self.out = Linear(weights, [(f"{name}.o_proj", hidden)], q_size, bias=out_bias)
        self.q_norm = q_norm
        self.k_norm = k_norm

    def __call__(self, x: Tensor, ctx: ForwardContext) -> Tensor:  # [T, hidden] -> [T, hidden]
        head_dim = self.spec.head_dim
        parts = self.qkv(x).split(self.sizes, dim=-1)
        q, k, v = (part.reshape(x.shape[0], -1, head_dim) for part in parts)
        if self.q_norm is not None:
            q = self.q_norm(q)
        if self.k_norm is not None:
            k = self.k_norm(k)
        cos, sin = self.rotary.rows(ctx)
        q, k = ctx.ops.rope(q, cos, sin), ctx.ops.rope(k, cos, sin)

        k_pool, v_pool = ctx.pool.k[self.layer], ctx.pool.v[self.layer]
        ctx.ops.store_kv(k, v, k_pool, v_pool, ctx.out_slots)
        mixed = ctx.ops.attention(q, k_pool, v_pool, ctx.attention_plan(self.spec), self.spec)
        return self.out(mixed.flatten(-2))
