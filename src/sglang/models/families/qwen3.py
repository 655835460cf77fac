"""Qwen3: normalised query and key heads instead of biases."""

from __future__ import annotations

from sglang.layers.decoder import Block
from sglang.layers.rotary import Rotary
from sglang.layers.weight_source import WeightSource
from sglang.models.base import CausalLM
from sglang.models.families.qwen2 import qwen_window
from sglang.models.pre_norm import pre_norm_block


class Qwen3ForCausalLM(CausalLM):
    def make_block(self, weights: WeightSource, index: int, rotary: Rotary) -> Block:
        bias = bool(self.config.hf.get("attention_bias", False))
        return pre_norm_block(
            self,
            weights,
            index,
            rotary,
            window=qwen_window(self.config, index),
            qkv_bias=bias,
            out_bias=bias,
            head_norms=True,
        )
