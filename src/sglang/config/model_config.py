"""What every part may know about the model: shapes, context, special tokens. No torch, no weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

DTYPES = ("float32", "bfloat16", "float16")
"""Types to compute in."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """A model's description, read from ``config.json`` or GGUF metadata (translated to the same keys)."""

    path: str
    """Local folder or .gguf file that holds the weights."""
    format: str
    """'hf' or 'gguf'."""
    architecture: str
    """Hugging Face class name, e.g. ``LlamaForCausalLM``; GGUF names are translated."""
    hf: dict[str, Any]
    """The (text) config with Hugging Face key names, overrides applied; families read their knobs from here."""
    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    context_length: int
    """Resolved: --context-length if given, else from the config."""
    eos_token_ids: tuple[int, ...]
    """Union of config, generation_config and tokenizer EOS (plus model-specific end-of-turn tokens)."""
    bos_token_id: int | None = None
    tie_word_embeddings: bool = False
    dtype: str = "float32"
    """Compute dtype: 'float32', 'bfloat16' or 'float16'."""
    generation_config: dict[str, Any] = field(default_factory=dict)
    """temperature, top_p, top_k, min_p, repetition_penalty where the checkpoint names them (else empty)."""

    @property
    def model_type(self) -> str:
        return str(self.hf.get("model_type", ""))
