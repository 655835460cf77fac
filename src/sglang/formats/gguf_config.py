"""Translates GGUF metadata to a config with Hugging Face key names.

Two facts are not in the metadata but in the tensors: whether the output head is tied (no ``output.weight`` in any
part of the file) and the factors of ``longrope``. The frequencies of Llama 3.1 and later are a tensor as well
(``rope_freqs.weight``); it holds finished divisors, so no ``rope_scaling`` is derived from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sglang.formats.errors import FormatError
from sglang.formats.gguf import GGUFFile

Config = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Metadata of one architecture: keys without the leading ``{architecture}.``."""

    file: GGUFFile
    architecture: str

    def need(self, key: str) -> Any:
        return _one_value(self.file, f"{self.architecture}.{key}", self.file.require(f"{self.architecture}.{key}"))

    def get(self, key: str, default: Any = None) -> Any:
        full = f"{self.architecture}.{key}"
        return _one_value(self.file, full, self.file.metadata.get(full, default))

    def raw(self, key: str) -> Any:
        return self.file.metadata.get(f"{self.architecture}.{key}")

    def floats(self, tensor_name: str) -> list[float] | None:
        tensor = self.file.tensors.get(tensor_name)
        return None if tensor is None else [float(value) for value in tensor.dequantize().reshape(-1)]


def _one_value(file: GGUFFile, key: str, value: Any) -> Any:
    """A number; an array is accepted where it says the same for every layer."""
    if not isinstance(value, np.ndarray):
        return value
    if len(set(value.tolist())) != 1:
        raise FormatError(
            f"{file.path}: {key!r} differs from layer to layer ({value.tolist()[:8]}...); such models are not supported"
        )
    return value[0].item()


def gguf_config(file: GGUFFile) -> Config:
    """The config of the model in ``file``; :class:`FormatError` names what is missing or not supported."""
    name = file.require("general.architecture")
    if name not in FAMILIES:
        raise FormatError(
            f"{file.path}: 'general.architecture' is {name!r}, which is not supported. "
            f"Supported: {', '.join(FAMILIES)} (llama also covers Mistral and SmolLM2)."
        )
    reader = _Reader(file, name)
    if reader.get("expert_count", 0):
        raise FormatError(f"{file.path}: a mixture of {reader.get('expert_count')} experts is not supported")
    return _shared(reader) | _tokens(file) | FAMILIES[name](reader)


def _shared(reader: _Reader) -> Config:
    heads = reader.need("attention.head_count")
    hidden = reader.need("embedding_length")
    head_dim = reader.get("attention.key_length") or hidden // heads
    if reader.get("attention.value_length", head_dim) != head_dim:
        raise FormatError(f"{reader.file.path}: keys and values of different sizes are not supported")
    config = {
        "hidden_size": hidden,
        "intermediate_size": reader.need("feed_forward_length"),
        "num_hidden_layers": reader.need("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": reader.get("attention.head_count_kv") or heads,
        "head_dim": head_dim,
        "max_position_embeddings": reader.need("context_length"),
        "rms_norm_eps": reader.need("attention.layer_norm_rms_epsilon"),
        "rope_theta": reader.get("rope.freq_base", 10000.0),
        "rope_scaling": _rope_scaling(reader),
        "vocab_size": _vocab_size(reader),
        "tie_word_embeddings": "output.weight" not in reader.file.tensors,
    }
    rotated = reader.get("rope.dimension_count") or head_dim
    if rotated != head_dim:
        config["partial_rotary_factor"] = rotated / head_dim
    return config


def _vocab_size(reader: _Reader) -> int:
    """Rows of the embedding: they may be padded beyond the tokenizer's vocabulary."""
    embedding = reader.file.tensors.get("token_embd.weight")
    if embedding is None:
        raise FormatError(f"{reader.file.path}: the tensor 'token_embd.weight' is missing. Use a complete file.")
    return embedding.shape[0]


def _rope_scaling(reader: _Reader) -> Config | None:
    original = reader.get("rope.scaling.original_context_length")
    long, short = reader.floats("rope_factors_long.weight"), reader.floats("rope_factors_short.weight")
    if long and short:
        scaling: Config = {"rope_type": "longrope", "long_factor": long, "short_factor": short}
        magnitude = reader.get("rope.scaling.attn_factor")
        if magnitude:
            scaling["attention_factor"] = magnitude
    else:
        kind = reader.get("rope.scaling.type", "none")
        # Files from before the type was written hold only the factor of linear scaling.
        factor = reader.get("rope.scaling.factor") or reader.get("rope.scale_linear") or 1.0
        if kind == "none" and reader.raw("rope.scaling.type") is None and factor != 1.0:
            kind = "linear"
        if kind == "none" or factor == 1.0:
            return None
        scaling = {"rope_type": kind, "factor": factor}
    if original:
        scaling["original_max_position_embeddings"] = original
    return scaling


def _tokens(file: GGUFFile) -> Config:
    names = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}
    keys = {f"{short}_token_id": f"tokenizer.ggml.{long}_token_id" for short, long in names.items()}
    return {name: file.metadata[key] for name, key in keys.items() if key in file.metadata}


def _llama(reader: _Reader) -> Config:
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_act": "silu",
        "attention_bias": "blk.0.attn_q.bias" in reader.file.tensors,
        "mlp_bias": "blk.0.ffn_up.bias" in reader.file.tensors,
    }


def _qwen2(reader: _Reader) -> Config:
    return {
        "model_type": "qwen2",
        "architectures": ["Qwen2ForCausalLM"],
        "hidden_act": "silu",
        "use_sliding_window": False,
    }


def _qwen3(reader: _Reader) -> Config:
    return {
        "model_type": "qwen3",
        "architectures": ["Qwen3ForCausalLM"],
        "hidden_act": "silu",
        "attention_bias": "blk.0.attn_q.bias" in reader.file.tensors,
        "use_sliding_window": False,
    }


def _phi3(reader: _Reader) -> Config:
    config: Config = {
        "model_type": "phi3",
        "architectures": ["Phi3ForCausalLM"],
        "hidden_act": "silu",
        "sliding_window": reader.get("attention.sliding_window") or None,
    }
    original = reader.get("rope.scaling.original_context_length")
    if original:
        config["original_max_position_embeddings"] = original
    return config


def _gemma(reader: _Reader, largest_depth: int, full: Callable[[int], bool]) -> Config:
    layers = reader.need("block_count")
    pattern = reader.raw("attention.sliding_window_pattern")
    if isinstance(pattern, np.ndarray):
        slides = [bool(flag) for flag in pattern.tolist()[:layers]]
    else:
        slides = [not full(index) for index in range(layers)]
    return {
        "hidden_activation": "gelu_pytorch_tanh",
        "attention_bias": False,
        "sliding_window": reader.get("attention.sliding_window") or None,
        "layer_types": ["sliding_attention" if flag else "full_attention" for flag in slides],
        "query_pre_attn_scalar": _query_scalar(reader, largest_depth),
        "attn_logit_softcapping": reader.get("attn_logit_softcapping"),
        "final_logit_softcapping": reader.get("final_logit_softcapping"),
    }


def _query_scalar(reader: _Reader, largest_depth: int) -> int:
    """Queries are scaled by the head size, in the 27B models (known by their depth) by hidden size / heads."""
    heads = reader.need("attention.head_count")
    hidden_per_head = int(reader.need("embedding_length")) // int(heads)
    if reader.need("block_count") == largest_depth:
        return hidden_per_head
    return int(reader.get("attention.key_length") or hidden_per_head)


def _gemma2(reader: _Reader) -> Config:
    config = _gemma(reader, largest_depth=46, full=lambda index: index % 2 == 1)
    # The caps are part of the family; files converted early don't name them.
    caps = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}
    config |= {key: config[key] or value for key, value in caps.items()}
    return config | {"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"]}


def _gemma3(reader: _Reader) -> Config:
    pattern = reader.raw("attention.sliding_window_pattern")
    period = pattern if isinstance(pattern, int) else 6
    config = _gemma(reader, largest_depth=62, full=lambda index: (index + 1) % period == 0)
    return config | {
        "model_type": "gemma3_text",
        "architectures": ["Gemma3ForCausalLM"],
        "rope_local_base_freq": reader.get("rope.freq_base_swa", 10000.0),
    }


FAMILIES: dict[str, Callable[[_Reader], Config]] = {
    "llama": _llama,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "gemma2": _gemma2,
    "gemma3": _gemma3,
    "phi3": _phi3,
}
"""``general.architecture`` -> what that family adds to the shared keys."""
