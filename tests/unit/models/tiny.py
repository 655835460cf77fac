"""Tiny random checkpoints of every family, written by transformers, and a driver that plays the executor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from sglang.config.model_config import ModelConfig
from sglang.layers.forward_context import ForwardContext
from sglang.layers.kv_pool import KVPool
from sglang.loader import load
from sglang.models.base import CausalLM
from sglang.models.registry import model_class
from sglang.ops.select import select

VOCAB = 128
CONTEXT = 512


def load_model(config: ModelConfig, family: Any, **options: Any) -> Any:
    """The model on the reference backend."""
    return load.load_model(config, family, select("cpu"), **options)


class Runner:
    """Rows of one model over a pool whose slots are handed out in random order."""

    def __init__(self, model: CausalLM, slots: int = 2048, seed: int = 0) -> None:
        self.model = model
        self.pool = KVPool.for_model(model.config, slots)
        self.free = [int(slot) for slot in np.random.default_rng(seed).permutation(slots)]
        self.table = np.full((64, CONTEXT), slots, dtype=np.int32)
        self.lengths = [0] * 64

    def step(self, rows: dict[int, list[int]]) -> dict[int, torch.Tensor]:
        """Feed new tokens to some rows; hidden states of the new tokens by row."""
        positions: list[int] = []
        for row, ids in rows.items():
            start = self.lengths[row]
            for position in range(start, start + len(ids)):
                self.table[row, position] = self.free.pop()
                positions.append(position)
            self.lengths[row] += len(ids)
        order = list(rows)
        query_lens = [len(rows[row]) for row in order]
        table_rows = np.repeat(order, query_lens)
        ctx = ForwardContext(
            self.model.ops,
            self.pool,
            input_ids=np.array([token for row in order for token in rows[row]]),
            positions=np.array(positions),
            out_slots=self.table[table_rows, positions].astype(np.int64),
            query_lens=np.array(query_lens),
            seq_lens=np.array([self.lengths[row] for row in order]),
            table_rows=np.array(order),
            slot_table=self.table,
        )
        hidden = self.model.forward(ctx)
        return dict(zip(order, hidden.split(query_lens), strict=True))

    def greedy(self, prompt: list[int], count: int, row: int = 0) -> list[int]:
        """``count`` tokens of highest logit after ``prompt``."""
        out: list[int] = []
        new = prompt
        while len(out) < count:
            logits = self.model.logits(self.step({row: new})[row][-1:])
            new = [int(logits.argmax())]
            out += new
        return out


def tiny_config(folder: Path, context_length: int = CONTEXT) -> ModelConfig:
    hf: dict[str, Any] = json.loads((folder / "config.json").read_text())
    architecture = hf["architectures"][0]
    tied = hf.get("tie_word_embeddings", True)
    hf = hf.get("text_config", hf)
    return ModelConfig(
        path=str(folder),
        format="hf",
        architecture=architecture,
        hf=hf,
        vocab_size=hf["vocab_size"],
        hidden_size=hf["hidden_size"],
        num_layers=hf["num_hidden_layers"],
        num_heads=hf["num_attention_heads"],
        num_kv_heads=hf["num_key_value_heads"],
        head_dim=hf.get("head_dim") or hf["hidden_size"] // hf["num_attention_heads"],
        context_length=context_length,
        eos_token_ids=(1,),
        tie_word_embeddings=tied,
    )


SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "pad_token_id": 0,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0, "original_max_position_embeddings": 64}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
GEMMA3_ROPE = {
    "full_attention": {"rope_type": "linear", "rope_theta": 100000.0, "factor": 8.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0 + 0.1 * i for i in range(6)],
    "long_factor": [2.0 + i for i in range(6)],
    "original_max_position_embeddings": 256,
}
GEMMA = {**SHAPE, "head_dim": 16, "query_pre_attn_scalar": 24, "sliding_window": 8}

FAMILIES: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "llama": (transformers.LlamaConfig, {**SHAPE}),
    "llama-tied-biased": (
        transformers.LlamaConfig,
        {**SHAPE, "tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True, "head_dim": 32},
    ),
    "llama3-rope": (transformers.LlamaConfig, {**SHAPE, "rope_parameters": LLAMA3}),
    "llama-yarn": (transformers.LlamaConfig, {**SHAPE, "rope_parameters": YARN}),
    "llama-linear": (transformers.LlamaConfig, {**SHAPE, "rope_parameters": LINEAR}),
    "mistral": (transformers.MistralConfig, {**SHAPE, "sliding_window": 8}),
    "qwen2": (transformers.Qwen2Config, {**SHAPE, "tie_word_embeddings": True}),
    "qwen2-sliding": (
        transformers.Qwen2Config,
        {**SHAPE, "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1},
    ),
    "qwen3": (transformers.Qwen3Config, {**SHAPE, "head_dim": 32}),
    "gemma2": (
        transformers.Gemma2Config,
        {**GEMMA, "attn_logit_softcapping": 1.0, "final_logit_softcapping": 2.0, "num_hidden_layers": 4},
    ),
    "gemma3": (
        transformers.Gemma3TextConfig,
        {**GEMMA, "num_hidden_layers": 4, "sliding_window_pattern": 3, "rope_parameters": GEMMA3_ROPE},
    ),
    "phi3": (transformers.Phi3Config, {**SHAPE, "sliding_window": 8}),
    "phi3-longrope": (
        transformers.Phi3Config,
        {
            **SHAPE,
            "rope_parameters": {**LONGROPE, "partial_rotary_factor": 0.75},
            "original_max_position_embeddings": 256,
        },
    ),
}


def random_model(config: Any) -> Any:
    """A model whose every weight matters: norms and biases are random too, logits spread over several units."""
    torch.manual_seed(0)
    auto = transformers.AutoModelForImageTextToText if hasattr(config, "vision_config") else None
    model = (auto or transformers.AutoModelForCausalLM).from_config(config, attn_implementation="eager").eval().float()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3 if parameter.dim() == 1 else 0.12)
    model.tie_weights()
    return model


def load_tiny(folder: Path, **changes: Any) -> CausalLM:
    config = tiny_config(folder, **changes)
    return load_model(config, model_class(config.architecture))


def prompt(length: int, seed: int = 0) -> list[int]:
    return torch.randint(2, VOCAB, (length,), generator=torch.Generator().manual_seed(seed)).tolist()
