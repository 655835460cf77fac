"""The block that llama and its many relatives share, with their differences as arguments."""

from __future__ import annotations

from sglang.layers.attention import Attention
from sglang.layers.decoder import PreNormBlock
from sglang.layers.mlp import GatedMLP
from sglang.layers.rotary import Rotary
from sglang.layers.weight_source import WeightSource
from sglang.models.base import CausalLM


def pre_norm_block(
    model: CausalLM,
    weights: WeightSource,
    index: int,
    rotary: Rotary,
    *,
    window: int | None = None,
    qkv_bias: bool = False,
    out_bias: bool = False,
    mlp_bias: bool = False,
    head_norms: bool = False,
    fused: bool = False,
) -> PreNormBlock:
    """Block ``index``. ``head_norms``: q and k are normalised by head; ``fused``: checkpoint matrices are merged."""
    c, name = model.config, f"model.layers.{index}"
    attention = Attention(
        weights,
        f"{name}.self_attn",
        index,
        c.hidden_size,
        model.attention_spec(window=window),
        rotary,
        qkv_bias=qkv_bias,
        out_bias=out_bias,
        fused=fused,
        q_norm=model.make_norm(weights, f"{name}.self_attn.q_norm", c.head_dim) if head_norms else None,
        k_norm=model.make_norm(weights, f"{name}.self_attn.k_norm", c.head_dim) if head_norms else None,
    )
    mlp = GatedMLP(
        weights,
        f"{name}.mlp",
        c.hidden_size,
        int(c.hf["intermediate_size"]),
        str(c.hf.get("hidden_act", "silu")),
        bias=mlp_bias,
        fused=fused,
    )
    return PreNormBlock(
        model.make_norm(weights, f"{name}.input_layernorm", c.hidden_size),
        attention,
        model.make_norm(weights, f"{name}.post_attention_layernorm", c.hidden_size),
        mlp,
    )
