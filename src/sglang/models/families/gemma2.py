"""Gemma 2: norms around both sub-blocks, every other layer slides, soft caps on scores and logits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from sglang.layers.attention import Attention
from sglang.layers.decoder import Block, SandwichBlock
from sglang.layers.mlp import GatedMLP
from sglang.layers.rotary import Rotary
from sglang.layers.weight_source import WeightSource
from sglang.models.base import CausalLM
from sglang.models.layer_types import FULL, layer_types, sliding_window


class Gemma2ForCausalLM(CausalLM):
    norm_offset: ClassVar[float] = 1.0
    head_norms: ClassVar[bool] = False

    def embedding_scale(self) -> float:
        return math.sqrt(self.config.hidden_size)

    def logit_cap(self) -> float | None:
        return self.config.hf.get("final_logit_softcapping")

    def slides(self, index: int) -> bool:
        """Where the config has no list: even layers slide."""
        return index % 2 == 0

    def make_rotaries(self, weights: WeightSource, kinds: set[str]) -> dict[str, Rotary]:
        """One table per layer type."""
        return dict.fromkeys(kinds, self.make_rotary(weights))

    def make_blocks(self, weights: WeightSource) -> Sequence[Block]:
        kinds = layer_types(self.config, self.slides)
        rotaries = self.make_rotaries(weights, set(kinds))
        return [self.make_typed_block(weights, index, kind, rotaries[kind]) for index, kind in enumerate(kinds)]

    def make_typed_block(self, weights: WeightSource, index: int, kind: str, rotary: Rotary) -> Block:
        c, name = self.config, f"model.layers.{index}"
        bias = bool(c.hf.get("attention_bias", False))
        spec = self.attention_spec(
            scale=float(c.hf.get("query_pre_attn_scalar") or c.head_dim) ** -0.5,
            window=None if kind == FULL else sliding_window(c, kind),
            logit_cap=c.hf.get("attn_logit_softcapping"),
        )
        attention = Attention(
            weights,
            f"{name}.self_attn",
            index,
            c.hidden_size,
            spec,
            rotary,
            qkv_bias=bias,
            out_bias=bias,
            q_norm=self.make_norm(weights, f"{name}.self_attn.q_norm", c.head_dim) if self.head_norms else None,
            k_norm=self.make_norm(weights, f"{name}.self_attn.k_norm", c.head_dim) if self.head_norms else None,
        )
        activation = str(c.hf.get("hidden_activation") or "gelu_pytorch_tanh")
        mlp = GatedMLP(weights, f"{name}.mlp", c.hidden_size, int(c.hf["intermediate_size"]), activation)
        return SandwichBlock(
            self.make_norm(weights, f"{name}.input_layernorm", c.hidden_size),
            attention,
            self.make_norm(weights, f"{name}.post_attention_layernorm", c.hidden_size),
            self.make_norm(weights, f"{name}.pre_feedforward_layernorm", c.hidden_size),
            mlp,
            self.make_norm(weights, f"{name}.post_feedforward_layernorm", c.hidden_size),
        )
