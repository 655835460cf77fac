"""Rotary position tables: cos and sin of every position, looked up so that no step computes an angle twice.

A lookup is also what keeps the angles the same bits in every batch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sglang.layers.rope_frequencies import RopeSettings, frequencies
from sglang.layers.weight_source import WeightSource

if TYPE_CHECKING:
    from torch import Tensor

    from sglang.layers.forward_context import ForwardContext

DIVISORS = "rope_freqs.weight"
"""GGUF files carry llama 3's scaling as a finished list of divisors, one per frequency."""


class Rotary:
    """Tables ``cos``, ``sin`` ``[context_length, rot/2]`` float32 of one kind of layer."""

    def __init__(self, weights: WeightSource, settings: RopeSettings, context_length: int) -> None:
        inverse, magnitude = frequencies(with_stored_divisors(weights, settings), context_length)
        angles = np.arange(context_length, dtype=np.float32)[:, None] * inverse
        self.cos = weights.ops.upload(np.cos(angles) * np.float32(magnitude), "float32")
        self.sin = weights.ops.upload(np.sin(angles) * np.float32(magnitude), "float32")

    def rows(self, ctx: ForwardContext) -> tuple[Tensor, Tensor]:
        """``(cos, sin)`` of the step's positions, ``[T, rot/2]`` each; looked up once per step."""
        at = ctx.positions
        return ctx.once(self, lambda: (self.cos.index_select(0, at), self.sin.index_select(0, at)))


def with_stored_divisors(weights: WeightSource, settings: RopeSettings) -> RopeSettings:
    """``settings`` with the divisors that the checkpoint holds as a tensor, if it does."""
    if not weights.has(DIVISORS):
        return settings
    divisors = weights.vector([(DIVISORS, settings.rotary_dim // 2)], dtype="float32").tolist()
    return replace(settings, kind="divided", scaling={"divisors": divisors})
