"""A GGUF file seen as a Hugging Face checkpoint: same names, same row order, same norm weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sglang.config.model_config import ModelConfig
from sglang.formats.gguf import GGUFFile, GGUFTensor
from sglang.loader.gguf_names import INTERLEAVED_HEADS, NORMS_PLUS_ONE, hf_name
from sglang.ops.interface import RawTensor


@dataclass(frozen=True, slots=True)
class GGUFRaw:
    """A tensor in GGUF blocks, and what must be done to it after expansion."""

    name: str
    tensor: GGUFTensor
    row_order: Tensor | None = None
    """Row i of the result is the stored row ``row_order[i]``. Blocks lie within rows, so they need not be expanded."""
    offset: float = 0.0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.shape

    def dense(self) -> Tensor:
        values = torch.from_numpy(self.tensor.dequantize())
        if self.row_order is not None:
            values = values.index_select(0, self.row_order)
        return values.add_(self.offset) if self.offset else values


def open_gguf(config: ModelConfig) -> dict[str, RawTensor]:
    """All tensors of ``config.path`` by Hugging Face name; nothing is read yet."""
    file = GGUFFile(config.path)
    architecture = str(file.require("general.architecture"))
    found: dict[str, RawTensor] = {}
    for stored, tensor in file.tensors.items():
        name = hf_name(stored, architecture)
        offset = -1.0 if architecture in NORMS_PLUS_ONE and name.endswith("norm.weight") else 0.0
        order = _halves_order(name, tensor.shape[0], config) if architecture in INTERLEAVED_HEADS else None
        found[name] = GGUFRaw(name, tensor, order, offset)
    return found


def _halves_order(name: str, rows: int, config: ModelConfig) -> Tensor | None:
    """Row order that turns (pair, member) within each head back into (member, pair); None for other tensors."""
    heads = {"q_proj": config.num_heads, "k_proj": config.num_kv_heads}.get(name.split(".")[-2])
    if heads is None or rows % (2 * heads):
        return None
    return torch.arange(rows).view(heads, -1, 2).transpose(1, 2).reshape(-1)
