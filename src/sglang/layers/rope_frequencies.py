"""Rotary frequencies and their scaling rules for longer contexts.

Each rule is a function ``(settings, context_length) -> (inverse frequencies [rot/2] float32, factor on cos and sin)``.
Rules that would depend on the current length of a sequence are pinned to the context length of the server, so that a
key once stored stays right: ``longrope`` uses its long factors when the context may exceed the original one, and
``dynamic`` is refused beyond the trained length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class RopeSettings:
    """Rotary embedding of one kind of layer."""

    theta: float
    rotary_dim: int
    """Leading dimensions of a head that rotate; even."""
    kind: str = "default"
    max_positions: int = 0
    """``max_position_embeddings`` of the checkpoint."""
    original_positions: int = 0
    """Trained context before scaling; 0 = not given."""
    scaling: Mapping[str, Any] = field(default_factory=dict)


Frequencies = tuple[npt.NDArray[np.float32], float]
Rule = Callable[[RopeSettings, int], Frequencies]


def read_rope(hf: Mapping[str, Any], head_dim: int, layer_type: str | None = None) -> RopeSettings:
    """Settings from a Hugging Face config: old (``rope_scaling``) or new (``rope_parameters``, maybe by layer type)."""
    scaling: Mapping[str, Any] = hf.get("rope_parameters") or hf.get("rope_scaling") or {}
    if layer_type is not None and isinstance(scaling.get(layer_type), Mapping):
        scaling = scaling[layer_type]
    kind = str(scaling.get("rope_type") or scaling.get("type") or "default")
    partial = float(scaling.get("partial_rotary_factor") or hf.get("partial_rotary_factor") or 1.0)
    original = hf.get("original_max_position_embeddings") or scaling.get("original_max_position_embeddings")
    return RopeSettings(
        theta=float(scaling.get("rope_theta") or hf.get("rope_theta") or 10000.0),
        rotary_dim=int(head_dim * partial),
        kind={"su": "longrope", "none": "default"}.get(kind, kind),
        max_positions=int(hf.get("max_position_embeddings") or 0),
        original_positions=int(original or 0),
        scaling=scaling,
    )


def frequencies(settings: RopeSettings, context_length: int) -> Frequencies:
    """Inverse frequencies and the factor on cos and sin."""
    if settings.kind not in RULES:
        raise ValueError(
            f"rope scaling {settings.kind!r} is not supported; supported: {', '.join(sorted(RULES))}. "
            "Choose another model, or override the model's rope settings"
        )
    return RULES[settings.kind](settings, context_length)


def default_rule(s: RopeSettings, context_length: int) -> Frequencies:
    exponent = np.arange(0, s.rotary_dim, 2, dtype=np.float32) / np.float32(s.rotary_dim)
    return (1.0 / np.power(np.float32(s.theta), exponent)).astype(np.float32), 1.0


def linear_rule(s: RopeSettings, context_length: int) -> Frequencies:
    inverse, _ = default_rule(s, context_length)
    return inverse / np.float32(s.scaling["factor"]), 1.0


def divided_rule(s: RopeSettings, context_length: int) -> Frequencies:
    """Any rule, worked out beforehand: one divisor per frequency."""
    inverse, _ = default_rule(s, context_length)
    divisors: npt.NDArray[np.float32] = np.asarray(s.scaling["divisors"], np.float32)
    return inverse / divisors, 1.0


def dynamic_rule(s: RopeSettings, context_length: int) -> Frequencies:
    trained = s.original_positions or s.max_positions
    if context_length > trained:
        raise ValueError(
            f"rope scaling 'dynamic' changes stored keys once a sequence passes {trained} tokens, which a shared cache "
            f"can't follow; the context length is {context_length}. Set --context-length {trained} or less"
        )
    return default_rule(s, context_length)


def llama3_rule(s: RopeSettings, context_length: int) -> Frequencies:
    """Long waves are stretched by ``factor``, short ones kept, those between blended."""
    inverse, _ = default_rule(s, context_length)
    factor, low, high = (float(s.scaling[key]) for key in ("factor", "low_freq_factor", "high_freq_factor"))
    turns = s.original_positions / (2 * math.pi / inverse)  # full turns within the trained context
    keep = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return ((1 - keep) * inverse / factor + keep * inverse).astype(np.float32), 1.0


def yarn_rule(s: RopeSettings, context_length: int) -> Frequencies:
    """YaRN, arXiv:2309.00071."""
    inverse, _ = default_rule(s, context_length)
    trained, factor = s.original_positions or s.max_positions, float(s.scaling["factor"])

    def dim_with_turns(turns: float) -> float:
        return s.rotary_dim * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(s.theta))

    low = dim_with_turns(float(s.scaling.get("beta_fast") or 32))
    high = dim_with_turns(float(s.scaling.get("beta_slow") or 1))
    if s.scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, s.rotary_dim - 1)
    ramp = (np.arange(s.rotary_dim // 2) - low) / max(high - low, 0.001)
    stretch = np.clip(ramp, 0.0, 1.0)
    blended = inverse / factor * stretch + inverse * (1 - stretch)
    return blended.astype(np.float32), _yarn_magnitude(s.scaling, factor)


def _yarn_magnitude(scaling: Mapping[str, Any], factor: float) -> float:
    given = scaling.get("attention_factor")
    if given is not None:
        return float(given)

    def magnitude(mscale: float) -> float:
        return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0

    mscale, mscale_all = scaling.get("mscale"), scaling.get("mscale_all_dim")
    return magnitude(mscale) / magnitude(mscale_all) if mscale and mscale_all else magnitude(1.0)


def longrope_rule(s: RopeSettings, context_length: int) -> Frequencies:
    """LongRoPE, arXiv:2402.13753."""
    inverse, _ = default_rule(s, context_length)
    original = s.original_positions or s.max_positions
    name = "long_factor" if context_length > original else "short_factor"
    stretch = np.asarray(s.scaling[name], np.float32)
    if stretch.shape != inverse.shape:
        raise ValueError(f"rope_scaling.{name} has {stretch.size} entries; {inverse.size} are needed")
    given = s.scaling.get("attention_factor")
    factor = s.max_positions / original if s.original_positions else float(s.scaling.get("factor") or 1.0)
    magnitude = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
    return inverse / stretch, float(given) if given is not None else magnitude


RULES: Mapping[str, Rule] = {
    "default": default_rule,
    "linear": linear_rule,
    "divided": divided_rule,
    "dynamic": dynamic_rule,
    "llama3": llama3_rule,
    "yarn": yarn_rule,
    "longrope": longrope_rule,
}
