"""How GGUF files name and store tensors, as data: the way back to Hugging Face names and layouts."""

from __future__ import annotations

import re
from collections.abc import Mapping

TOP_LEVEL: Mapping[str, str] = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "rope_freqs": "rope_freqs",
    "rope_factors_long": "rope_factors_long",
    "rope_factors_short": "rope_factors_short",
}

IN_BLOCK: Mapping[str, str] = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}

_SANDWICH: Mapping[str, str] = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}

IN_BLOCK_BY_ARCHITECTURE: Mapping[str, Mapping[str, str]] = {
    "gemma2": _SANDWICH,
    "gemma3": _SANDWICH,
    "phi3": {"ffn_up": "mlp.gate_up_proj"},
}
"""Entries that replace or extend IN_BLOCK for a ``general.architecture``."""

INTERLEAVED_HEADS: frozenset[str] = frozenset({"llama"})
"""Architectures whose q and k rows are stored for rotation of neighbours instead of halves."""

NORMS_PLUS_ONE: frozenset[str] = frozenset({"gemma", "gemma2", "gemma3"})
"""Architectures whose norm weights are stored with the family's offset of 1 already added."""

_BLOCK = re.compile(r"^blk\.(\d+)\.(\w+)\.(weight|bias)$")


def hf_name(name: str, architecture: str) -> str:
    """The Hugging Face name of a GGUF tensor; a name that no rule knows is returned as it is."""
    match = _BLOCK.match(name)
    if match is None:
        stem, _, kind = name.rpartition(".")
        return f"{TOP_LEVEL[stem]}.{kind}" if stem in TOP_LEVEL else name
    index, part, kind = match.groups()
    table = {**IN_BLOCK, **IN_BLOCK_BY_ARCHITECTURE.get(architecture, {})}
    return f"model.layers.{index}.{table[part]}.{kind}" if part in table else name
