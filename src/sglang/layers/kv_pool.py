"""Storage for the keys and values of all layers, addressed by slot: one slot holds one token."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from sglang.config.model_config import ModelConfig

PADDING_SLOTS = 1
"""One slot after the real ones stays zero: attention reads it where a row's context ends inside a block."""


def bytes_per_token(config: ModelConfig, dtype: torch.dtype = torch.float32) -> int:
    """Memory that one slot takes over all layers; for sizing a pool before it exists."""
    return 2 * config.num_layers * config.num_kv_heads * config.head_dim * dtype.itemsize


class KVPool:
    """``k[layer]`` and ``v[layer]`` are ``[num_slots + PADDING_SLOTS, kv_heads, head_dim]``.

    Slots 0 … num_slots-1 may be handed out in any order; ``pad_slot`` (= num_slots) must never be written.
    """

    def __init__(
        self,
        num_slots: int,
        num_layers: int,
        num_kv_heads: int,
        head_dim: int,
        *,
        dtype: torch.dtype = torch.float32,
        device: str | torch.device = "cpu",
    ) -> None:
        if num_slots < 1:
            raise ValueError(f"a KV pool needs at least one slot, got {num_slots}")
        shape = (num_slots + PADDING_SLOTS, num_kv_heads, head_dim)
        self.num_slots = num_slots
        self.pad_slot = num_slots
        self.k: list[Tensor] = [_zeros(shape, dtype, torch.device(device)) for _ in range(num_layers)]
        self.v: list[Tensor] = [_zeros(shape, dtype, torch.device(device)) for _ in range(num_layers)]

    @classmethod
    def for_model(
        cls,
        config: ModelConfig,
        num_slots: int,
        *,
        dtype: torch.dtype = torch.float32,
        device: str | torch.device = "cpu",
    ) -> KVPool:
        """A pool with the shape that ``config`` asks for."""
        return cls(num_slots, config.num_layers, config.num_kv_heads, config.head_dim, dtype=dtype, device=device)

    def bytes_per_token(self) -> int:
        """Memory that one slot takes over all layers."""
        return sum(pool[0].numel() * pool.element_size() for pool in (*self.k, *self.v))


def _zeros(shape: tuple[int, int, int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros; on the CPU in pages that the system hands out when they are first written, so that a large pool costs
    neither start-up time nor memory until it is used (``torch.zeros`` writes every page)."""
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    size = math.prod(shape) * torch.empty((), dtype=dtype).element_size()
    return torch.from_numpy(np.zeros(size, dtype=np.uint8)).view(dtype).view(shape)
