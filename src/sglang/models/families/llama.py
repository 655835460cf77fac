"""Llama and what shares its layout: SmolLM2, and Mistral, whose first versions slide in every layer."""

from __future__ import annotations

from sglang.layers.decoder import Block
from sglang.layers.rotary import Rotary
from sglang.layers.weight_source import WeightSource
from sglang.models.base import CausalLM
from sglang.models.layer_types import SLIDING, sliding_window
from sglang.models.pre_norm import pre_norm_block


class LlamaForCausalLM(CausalLM):
    def make_block(self, weights: WeightSource, index: int, rotary: Rotary) -> Block:
        bias = bool(self.config.hf.get("attention_bias", False))
        return pre_norm_block(
            self,
            weights,
            index,
            rotary,
            window=self.window(),
            qkv_bias=bias,
            out_bias=bias,
            mlp_bias=bool(self.config.hf.get("mlp_bias", False)),
        )

    def window(self) -> int | None:
        return None


class MistralForCausalLM(LlamaForCausalLM):
    def window(self) -> int | None:
        return sliding_window(self.config, SLIDING)
