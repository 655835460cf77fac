"""A folder of safetensors files as tensors by name, mapped into memory without a copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sglang.config.model_config import ModelConfig
from sglang.formats.safetensors import SafetensorsEntry, SafetensorsFolder
from sglang.loader.errors import LoadError
from sglang.ops.interface import RawTensor

DTYPES: Mapping[str, torch.dtype] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}


@dataclass(frozen=True, slots=True)
class SafetensorsRaw:
    entry: SafetensorsEntry

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def shape(self) -> tuple[int, ...]:
        return self.entry.shape

    def dense(self) -> Tensor:
        e = self.entry
        if e.dtype not in DTYPES:
            raise LoadError(
                f"{e.file}: tensor {e.name!r} has the type {e.dtype}; supported as weights: {', '.join(DTYPES)}"
            )
        if e.nbytes == 0:
            return torch.empty(e.shape, dtype=DTYPES[e.dtype])
        # Copy-on-write: torch insists on memory it could write to.
        mapped = np.memmap(e.file, np.uint8, "c", e.offset, e.nbytes)
        return torch.from_numpy(mapped).view(DTYPES[e.dtype]).view(e.shape)


def open_safetensors(config: ModelConfig) -> dict[str, RawTensor]:
    """All tensors of the folder ``config.path``; headers are read, weights are not."""
    return {name: SafetensorsRaw(entry) for name, entry in SafetensorsFolder(config.path).entries.items()}
