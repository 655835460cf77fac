"""Gemma 3: normalised heads, five sliding layers to one full, and a rotary base of their own for sliding layers."""

from __future__ import annotations

from typing import ClassVar

from sglang.layers.rope_frequencies import RopeSettings, read_rope
from sglang.layers.rotary import Rotary
from sglang.layers.weight_source import CheckpointRules, WeightSource
from sglang.models.families.gemma2 import Gemma2ForCausalLM
from sglang.models.layer_types import FULL, SLIDING


class Gemma3ForCausalLM(Gemma2ForCausalLM):
    head_norms: ClassVar[bool] = True

    def slides(self, index: int) -> bool:
        pattern = int(self.config.hf.get("sliding_window_pattern") or 6)
        return (index + 1) % pattern != 0

    def make_rotaries(self, weights: WeightSource, kinds: set[str]) -> dict[str, Rotary]:
        c = self.config
        full = read_rope(c.hf, c.head_dim, FULL)
        sliding = read_rope(c.hf, c.head_dim, SLIDING)
        if SLIDING not in (c.hf.get("rope_parameters") or {}):
            # Older configs give the sliding base by itself; context scaling is for full layers only.
            sliding = RopeSettings(float(c.hf.get("rope_local_base_freq") or 10000.0), full.rotary_dim)
        by_kind = {FULL: full, SLIDING: sliding}
        return {kind: Rotary(weights, by_kind[kind], c.context_length) for kind in kinds}


class Gemma3ForConditionalGeneration(Gemma3ForCausalLM):
    """The text part of the checkpoints that also see."""

    rules: ClassVar[CheckpointRules] = CheckpointRules(
        prefixes=(
            ("language_model.model.", "model."),
            ("model.language_model.", "model."),
            ("language_model.lm_head.", "lm_head."),
        ),
        ignored=(r"(model\.)?vision_tower\.", r"(model\.)?multi_modal_projector\."),
    )
