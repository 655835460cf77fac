"""A GGUF file seen as a Hugging Face checkpoint: same names, same row order, same norm weights."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from sglang.config.model_config import ModelConfig
from sglang.formats.gguf import GGUFFile, GGUFTensor
from sglang.formats.raw import RawTensor
from sglang.loader.gguf_names import INTERLEAVED_HEADS, NORMS_PLUS_ONE, hf_name


def open_gguf(config: ModelConfig) -> dict[str, RawTensor]:
    """All tensors of ``config.path`` by Hugging Face name; nothing is read yet."""
    file = GGUFFile(config.path)
    architecture = str(file.require("general.architecture"))
    found: dict[str, RawTensor] = {}
    for stored, tensor in file.tensors.items():
        name = hf_name(stored, architecture)
        offset = -1.0 if architecture in NORMS_PLUS_ONE and name.endswith("norm.weight") else 0.0
        order = _halves_order(name, tensor.shape[0], config) if architecture in INTERLEAVED_HEADS else None
        found[name] = RawTensor(name, tensor.shape, tensor.ggml_type, partial(_data, tensor), order, offset)
    return found


def _data(tensor: GGUFTensor) -> npt.NDArray[np.uint8]:
    return tensor.data


def _halves_order(name: str, rows: int, config: ModelConfig) -> npt.NDArray[np.int64] | None:
    """Row order that turns (pair, member) within each head back into (member, pair); None for other tensors."""
    heads = {"q_proj": config.num_heads, "k_proj": config.num_kv_heads}.get(name.split(".")[-2])
    if heads is None or rows % (2 * heads):
        return None
    return np.arange(rows).reshape(heads, -1, 2).swapaxes(1, 2).reshape(-1)
