"""Qwen2 and Qwen2.5: llama with biases on q, k and v, and an optional window on the upper layers."""

from __future__ import annotations

from sglang.config.model_config import ModelConfig
from sglang.layers.decoder import Block
from sglang.layers.rotary import Rotary
from sglang.layers.weight_source import WeightSource
from sglang.models.base import CausalLM
from sglang.models.layer_types import layer_types, sliding_window
from sglang.models.pre_norm import pre_norm_block


def qwen_window(config: ModelConfig, index: int) -> int | None:
    """The window of a layer: with ``use_sliding_window``, layers from ``max_window_layers`` on slide."""
    if not config.hf.get("use_sliding_window"):
        return None
    start = int(config.hf.get("max_window_layers", 28))
    return sliding_window(config, layer_types(config, lambda layer: layer >= start)[index])


class Qwen2ForCausalLM(CausalLM):
    def make_block(self, weights: WeightSource, index: int, rotary: Rotary) -> Block:
        return pre_norm_block(self, weights, index, rotary, window=qwen_window(self.config, index), qkv_bias=True)
