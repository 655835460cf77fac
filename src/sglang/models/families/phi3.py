"""Phi-3 and Phi-4-mini: llama with merged matrices in the checkpoint, partly rotated heads and longrope."""

from __future__ import annotations

from sglang.layers.decoder import Block
from sglang.layers.rotary import Rotary
from sglang.layers.weight_source import WeightSource
from sglang.models.base import CausalLM
from sglang.models.layer_types import SLIDING, sliding_window
from sglang.models.pre_norm import pre_norm_block


class Phi3ForCausalLM(CausalLM):
    def make_block(self, weights: WeightSource, index: int, rotary: Rotary) -> Block:
        window = sliding_window(self.config, SLIDING)
        return pre_norm_block(self, weights, index, rotary, window=window, fused=True)
