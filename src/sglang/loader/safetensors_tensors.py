"""A folder of safetensors files as tensors by name, mapped into memory without a copy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from sglang.config.model_config import ModelConfig
from sglang.formats.ggml_types import GGMLType
from sglang.formats.raw import RawTensor, narrowed
from sglang.formats.safetensors import SafetensorsEntry, SafetensorsFolder
from sglang.loader.errors import LoadError

KINDS: Mapping[str, GGMLType] = {
    "F64": GGMLType.F32,
    "F32": GGMLType.F32,
    "F16": GGMLType.F16,
    "BF16": GGMLType.BF16,
}
"""The format's name -> how the values are handed on; float64 is narrowed while it is read."""
OTHER = GGMLType.F32
"""Stands for types that aren't weights: they fail when they are read, and only then."""


def open_safetensors(config: ModelConfig) -> dict[str, RawTensor]:
    """All tensors of the folder ``config.path``; headers are read, weights are not."""
    return {
        name: RawTensor(name, entry.shape, KINDS.get(entry.dtype, OTHER), partial(_data, entry))
        for name, entry in SafetensorsFolder(config.path).entries.items()
    }


def _data(entry: SafetensorsEntry) -> npt.NDArray[np.uint8]:
    if entry.dtype not in KINDS:
        raise LoadError(
            f"{entry.file}: tensor {entry.name!r} has the type {entry.dtype}; supported as weights: {', '.join(KINDS)}"
        )
    if entry.nbytes == 0:
        return np.empty(0, np.uint8)
    mapped = np.memmap(entry.file, np.uint8, "r", entry.offset, entry.nbytes)
    return narrowed(mapped.view("<f8")) if entry.dtype == "F64" else mapped
