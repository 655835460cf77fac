"""Reads a model's description from a Hugging Face folder or a GGUF file. No weights are touched."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sglang.config.env import read_env, variable_name
from sglang.config.model_config import ModelConfig
from sglang.formats.errors import FormatError
from sglang.formats.gguf import GGUFFile
from sglang.formats.gguf_config import gguf_config

Json = dict[str, Any]

ARCHITECTURES: Mapping[str, str] = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "mistral",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "Gemma2ForCausalLM": "gemma2",
    "Gemma3ForCausalLM": "gemma3_text",
    "Gemma3ForConditionalGeneration": "gemma3",
    "Phi3ForCausalLM": "phi3",
}
"""Supported architectures and the ``model_type`` of each."""

_GEMMA = {"tie_word_embeddings": True, "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6, "head_dim": 256}
_GEMMA3 = _GEMMA | {
    "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 262208, "max_position_embeddings": 131072,
    "query_pre_attn_scalar": 256, "rope_theta": 1e6, "rope_local_base_freq": 1e4, "sliding_window": 4096,
}  # fmt: skip
FAMILY_DEFAULTS: Mapping[str, Json] = {
    "llama": {"rms_norm_eps": 1e-6, "max_position_embeddings": 2048},
    "mistral": {"rms_norm_eps": 1e-6, "max_position_embeddings": 131072, "num_key_value_heads": 8},
    "qwen2": {"rms_norm_eps": 1e-6, "max_position_embeddings": 32768},
    "qwen3": {"rms_norm_eps": 1e-6, "max_position_embeddings": 32768, "head_dim": 128},
    "gemma2": _GEMMA | {
        "max_position_embeddings": 8192, "query_pre_attn_scalar": 256, "sliding_window": 4096,
        "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
    },
    "gemma3_text": _GEMMA3,
    "gemma3": _GEMMA3,
    "phi3": {"rms_norm_eps": 1e-5, "max_position_embeddings": 4096},
}  # fmt: skip
"""What a config.json of the family means where it is silent: published files leave out such values."""

END_OF_TURN_TOKENS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>")
"""Tokens that end an answer in every model that has them, whether or not the config says so."""
FAMILY_END_TOKENS: Mapping[str, tuple[str, ...]] = {"qwen2": ("<|endoftext|>",), "qwen3": ("<|endoftext|>",)}

DTYPES = {
    # Float32 is the default: plain CPUs compute it fastest, and results don't depend on the batch.
    "auto": "float32",
    "float32": "float32",
    "float": "float32",
    "bfloat16": "bfloat16",
    "float16": "float16",
    "half": "float16",
}

GENERATION_KEYS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
LONGER_CONTEXT_ENV = variable_name("allow_overwrite_longer_context_len")


def load_model_config(
    path: Path, *, context_length: int | None = None, overrides: Json | None = None, dtype: str = "auto"
) -> ModelConfig:
    """The model at ``path`` (folder or .gguf file).

    ``context_length`` replaces the model's own; a longer one is refused unless the environment variable
    SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN is 1. ``overrides`` are merged over the config. Raises
    :class:`FormatError` for files, :class:`ValueError` for settings that don't fit.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r} is not known; accepted: {', '.join(DTYPES)}")
    source = _from_gguf(path) if path.is_file() else _from_folder(path)
    hf = source.hf | (overrides or {})
    return _build(path, source, hf, _context_length(path, hf, context_length), DTYPES[dtype])


class _Source:
    """What was found on disk, before overrides: the config, defaults for requests, and the ids that end an answer."""

    def __init__(self, kind: str, hf: Json, generation: Json, eos: Iterable[Any], special: Mapping[str, int]) -> None:
        self.kind = kind
        self.architecture, self.hf = _with_defaults(hf)
        self.generation = {key: generation[key] for key in GENERATION_KEYS if generation.get(key) is not None}
        self.ends = list(eos)
        known = END_OF_TURN_TOKENS + FAMILY_END_TOKENS.get(self.hf["model_type"], ())
        self.ends += [special[text] for text in known if text in special]


def _from_gguf(path: Path) -> _Source:
    file = GGUFFile(path)
    tokens = file.metadata.get("tokenizer.ggml.tokens", [])
    known = {*END_OF_TURN_TOKENS, *(text for texts in FAMILY_END_TOKENS.values() for text in texts)}
    special = {text: number for number, text in enumerate(tokens) if text in known}
    eos = [file.metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot")]
    return _Source("gguf", gguf_config(file), {}, eos, special)


def _from_folder(path: Path) -> _Source:
    if not (path / "config.json").is_file():
        raise FormatError(f"{path}: no config.json. Give a Hugging Face model folder or a .gguf file.")
    outer = _read_json(path / "config.json")
    hf = outer
    if isinstance(outer.get("text_config"), dict):
        # Of a model that also sees, the text part; names and ids outside it hold for both.
        hf = {key: value for key, value in outer.items() if not key.endswith("_config")} | outer["text_config"]
        hf["architectures"] = outer.get("architectures")
    generation = _read_json(path / "generation_config.json")
    tokenizer = _read_json(path / "tokenizer_config.json")
    special = _added_tokens(path, tokenizer)
    eos = [outer.get("eos_token_id"), hf.get("eos_token_id"), generation.get("eos_token_id")]
    eos.append(special.get(_token_text(tokenizer.get("eos_token"))))
    return _Source("hf", hf, generation, eos, special)


def _with_defaults(hf: Json) -> tuple[str, Json]:
    names = hf.get("architectures")
    architecture = str(names[0]) if isinstance(names, list) and names else str(names)
    if architecture not in ARCHITECTURES:
        raise ValueError(
            f"model architecture {architecture!r} (architectures in config.json) is not supported. "
            f"Supported: {', '.join(ARCHITECTURES)}."
        )
    model_type = str(hf.get("model_type") or ARCHITECTURES[architecture])
    defaults = FAMILY_DEFAULTS[ARCHITECTURES[architecture]]
    return architecture, {**defaults, **hf, "model_type": model_type}


def _build(path: Path, source: _Source, hf: Json, context_length: int, dtype: str) -> ModelConfig:
    hidden, heads = _positive(path, hf, "hidden_size"), _positive(path, hf, "num_attention_heads")
    kv_heads = hf.get("num_key_value_heads") or heads
    if heads % kv_heads:
        raise ValueError(f"{path}: num_attention_heads {heads} is not a multiple of num_key_value_heads {kv_heads}")
    ends = [hf.get("eos_token_id"), *source.ends]
    return ModelConfig(
        path=str(path),
        format=source.kind,
        architecture=source.architecture,
        hf=hf,
        vocab_size=_positive(path, hf, "vocab_size"),
        hidden_size=hidden,
        num_layers=_positive(path, hf, "num_hidden_layers"),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=hf.get("head_dim") or hidden // heads,
        context_length=context_length,
        eos_token_ids=_distinct_ids(ends),
        bos_token_id=_first(hf.get("bos_token_id")),
        tie_word_embeddings=bool(hf.get("tie_word_embeddings", False)),
        dtype=dtype,
        generation_config=source.generation,
    )


def _positive(path: Path, hf: Json, key: str) -> int:
    value = hf.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{path}: {key} in the model's config is {value!r}; a positive integer is needed")
    return value


def _context_length(path: Path, hf: Json, requested: int | None) -> int:
    own = _own_context_length(path, hf)
    if requested is None:
        return own
    if requested <= 0:
        raise ValueError(f"context length {requested} must be positive")
    if requested > own and not read_env().allow_overwrite_longer_context_len:
        raise ValueError(
            f"context length {requested} is longer than the {own} tokens the model was made for; answers may become "
            f"nonsense. Use {own} or less, or set {LONGER_CONTEXT_ENV}=1 to allow it."
        )
    return requested


def _own_context_length(path: Path, hf: Json) -> int:
    """``max_position_embeddings``, stretched where the scaling rule says that it is the length before scaling."""
    length = _positive(path, hf, "max_position_embeddings")
    scaling = hf.get("rope_scaling") or hf.get("rope_parameters") or {}
    kind = scaling.get("rope_type") or scaling.get("type")
    stretched = kind in ("linear", "dynamic", "yarn") and not str(hf.get("model_type")).startswith("gemma3")
    if stretched and not scaling.get("original_max_position_embeddings"):
        return int(length * float(scaling.get("factor") or 1.0))
    return length


def _distinct_ids(values: Iterable[Any]) -> tuple[int, ...]:
    """Ids and lists of ids, flattened, first mention first."""
    ids: dict[int, None] = {}
    for value in values:
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, int) and not isinstance(item, bool) and item >= 0:
                ids[item] = None
    return tuple(ids)


def _first(value: Any) -> int | None:
    return next(iter(_distinct_ids([value])), None)


def _token_text(value: Any) -> str:
    """Tokens stand in tokenizer_config.json as text, or as an object with ``content``."""
    return str(value.get("content", "")) if isinstance(value, dict) else str(value or "")


def _added_tokens(path: Path, tokenizer: Json) -> dict[str, int]:
    decoder = tokenizer.get("added_tokens_decoder")
    if isinstance(decoder, dict):
        return {_token_text(token): int(number) for number, token in decoder.items()}
    file = path / "tokenizer.json"
    if not file.is_file():
        return {}
    # The vocabulary makes this file tens of megabytes; only the one list near its beginning is parsed.
    text = file.read_text("utf-8")
    start = text.find("[", text.find('"added_tokens"'))
    try:
        tokens, _ = json.JSONDecoder().raw_decode(text, start)
        return {token["content"]: int(token["id"]) for token in tokens}
    except (ValueError, KeyError, TypeError):
        return {}


def _read_json(path: Path) -> Json:
    """The object in a JSON file; empty where the file is absent."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise FormatError(f"{path}: not valid JSON ({error}). Download it again.") from None
    if not isinstance(value, dict):
        raise FormatError(f"{path}: must hold a JSON object, not {type(value).__name__}")
    return value
