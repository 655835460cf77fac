"""GGUF metadata to Hugging Face keys: transformers must build the model that was converted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoConfig

from sglang.formats.errors import FormatError
from sglang.formats.gguf import GGUFFile
from sglang.formats.gguf_config import FAMILIES, gguf_config
from unit.formats.gguf_files import write_gguf

BASE: dict[str, Any] = {
    ".block_count": 8, ".context_length": 4096, ".embedding_length": 64, ".feed_forward_length": 96,
    ".attention.head_count": 4, ".attention.head_count_kv": 2, ".attention.layer_norm_rms_epsilon": 1e-6,
    ".rope.freq_base": 50000.0, "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
}  # fmt: skip


def config(
    tmp_path: Path, arch: str, *, head: bool = False, tensors: dict[str, Any] | None = None, **keys: Any
) -> dict:
    named = {f".{key.replace('__', '.')}": value for key, value in keys.items()}
    all_tensors = {"token_embd.weight": np.zeros((100, 64), np.float32), **(tensors or {})}
    if head:
        all_tensors["output.weight"] = np.zeros((100, 64), np.float32)
    return gguf_config(GGUFFile(write_gguf(tmp_path / "m.gguf", arch, BASE | named, all_tensors)))


@pytest.mark.parametrize("arch", sorted(FAMILIES))
def test_transformers_reads_the_same_numbers(tmp_path: Path, arch: str) -> None:
    ours = config(tmp_path, arch, attention__key_length=32, attention__value_length=32)
    theirs = AutoConfig.for_model(**ours)
    for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"):
        assert getattr(theirs, key) == ours[key] == {
            "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 8, "num_attention_heads": 4,
            "num_key_value_heads": 2,
        }[key]  # fmt: skip
    assert theirs.head_dim == 32 and theirs.vocab_size == 100 and theirs.max_position_embeddings == 4096
    assert theirs.rms_norm_eps == pytest.approx(1e-6)
    assert theirs.tie_word_embeddings is True
    rope = theirs.rope_parameters
    assert rope.get("full_attention", rope)["rope_theta"] == 50000.0
    assert (theirs.bos_token_id, theirs.eos_token_id) == (1, 2)


def test_the_real_models(smollm2_gguf: Path, qwen25_gguf: Path, gemma3_gguf: Path) -> None:
    smollm2, qwen, gemma = (gguf_config(GGUFFile(path)) for path in (smollm2_gguf, qwen25_gguf, gemma3_gguf))
    assert (smollm2["num_hidden_layers"], smollm2["head_dim"], smollm2["rope_theta"]) == (30, 64, 100000.0)
    assert smollm2["tie_word_embeddings"] and not qwen["tie_word_embeddings"] and gemma["tie_word_embeddings"]
    assert (qwen["vocab_size"], qwen["num_key_value_heads"]) == (151936, 2)
    assert (gemma["head_dim"], gemma["sliding_window"], gemma["query_pre_attn_scalar"]) == (256, 512, 256)
    assert [n for n, kind in enumerate(gemma["layer_types"]) if kind == "full_attention"] == [5, 11, 17]
    assert (gemma["rope_theta"], gemma["rope_local_base_freq"]) == (1e6, 1e4)
    assert gemma["final_logit_softcapping"] is None


def test_the_head_is_tied_only_when_no_part_has_one(tmp_path: Path) -> None:
    embedding, head = (
        {"token_embd.weight": np.zeros((100, 64), np.float32)},
        {"output.weight": np.zeros((100, 64), np.float32)},
    )
    write_gguf(tmp_path / "m-00001-of-00002.gguf", "llama", BASE, embedding)
    second = write_gguf(tmp_path / "m-00002-of-00002.gguf", "llama", {}, head)
    assert gguf_config(GGUFFile(tmp_path / "m-00001-of-00002.gguf"))["tie_word_embeddings"] is False
    write_gguf(second, "llama", {}, {"output_norm.weight": np.zeros(64, np.float32)})
    assert gguf_config(GGUFFile(tmp_path / "m-00001-of-00002.gguf"))["tie_word_embeddings"] is True


def test_rope_scaling_rules(tmp_path: Path) -> None:
    assert config(tmp_path, "llama")["rope_scaling"] is None
    linear = config(tmp_path, "llama", rope__scaling__type="linear", rope__scaling__factor=4.0)
    assert linear["rope_scaling"] == {"rope_type": "linear", "factor": 4.0}
    yarn = config(
        tmp_path, "qwen2", rope__scaling__type="yarn", rope__scaling__factor=4.0,
        rope__scaling__original_context_length=1024,
    )  # fmt: skip
    assert yarn["rope_scaling"] == {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}


def test_phi3_longrope_factors_are_tensors(tmp_path: Path) -> None:
    factors = {
        f"rope_factors_{name}.weight": np.full(6, value, np.float32) for name, value in (("long", 2.0), ("short", 1.5))
    }
    ours = config(
        tmp_path, "phi3", head=True, tensors=factors, rope__dimension_count=12, attention__sliding_window=2047,
        rope__scaling__original_context_length=1024, rope__scaling__attn_factor=1.25,
    )  # fmt: skip
    assert ours["rope_scaling"] == {
        "rope_type": "longrope", "long_factor": [2.0] * 6, "short_factor": [1.5] * 6, "attention_factor": 1.25,
        "original_max_position_embeddings": 1024,
    }  # fmt: skip
    assert ours["partial_rotary_factor"] == 0.75 and ours["original_max_position_embeddings"] == 1024
    assert ours["sliding_window"] == 2047 and ours["tie_word_embeddings"] is False


def test_gemma_layers_and_caps(tmp_path: Path) -> None:
    gemma2 = config(tmp_path, "gemma2", attention__sliding_window=128)
    assert gemma2["layer_types"] == ["sliding_attention", "full_attention"] * 4
    assert (gemma2["attn_logit_softcapping"], gemma2["final_logit_softcapping"]) == (50.0, 30.0)
    assert config(tmp_path, "gemma2", final_logit_softcapping=20.0)["final_logit_softcapping"] == 20.0
    gemma3 = config(tmp_path, "gemma3", attention__sliding_window_pattern=4)
    assert [kind[0] for kind in gemma3["layer_types"]] == list("sssfsssf")
    listed = config(tmp_path, "gemma3", attention__sliding_window_pattern=[True, False] * 4)
    assert [kind[0] for kind in listed["layer_types"]] == list("sfsfsfsf")
    big = config(tmp_path, "gemma3", block_count=62, attention__key_length=32, attention__value_length=32)
    assert big["query_pre_attn_scalar"] == 16  # of the 27B model: hidden size / heads
    assert (
        config(tmp_path, "gemma3", attention__key_length=32, attention__value_length=32)["query_pre_attn_scalar"] == 32
    )


def test_what_is_not_supported_is_said(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"'mamba'.*Supported: llama, qwen2, qwen3, gemma2, gemma3, phi3"):
        config(tmp_path, "mamba")
    with pytest.raises(FormatError, match="mixture of 8 experts"):
        config(tmp_path, "llama", expert_count=8)
    with pytest.raises(FormatError, match=r"'llama\.attention\.head_count_kv' differs from layer to layer"):
        config(tmp_path, "llama", attention__head_count_kv=[1, 2, 2, 2, 2, 2, 2, 2])
    assert config(tmp_path, "llama", attention__head_count_kv=[2] * 8)["num_key_value_heads"] == 2
    path = write_gguf(tmp_path / "x.gguf", "llama", BASE, {"w": np.zeros((1, 32), np.float32)})
    with pytest.raises(FormatError, match=r"'token_embd\.weight' is missing"):
        gguf_config(GGUFFile(path))
    path = write_gguf(tmp_path / "y.gguf", "qwen3", {}, {"w": np.zeros((1, 32), np.float32)})
    with pytest.raises(FormatError, match=r"'qwen3\.attention\.head_count' is missing"):
        gguf_config(GGUFFile(path))
