"""A model's description from Hugging Face folders and GGUF files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sglang.config.load_model_config import load_model_config
from sglang.formats.errors import FormatError

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100,
    "max_position_embeddings": 512, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def folder(tmp_path: Path, config: dict[str, Any], **files: Any) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(config))
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return tmp_path


def test_a_folder(tmp_path: Path) -> None:
    config = load_model_config(folder(tmp_path, LLAMA))
    assert (config.format, config.architecture, config.model_type) == ("hf", "LlamaForCausalLM", "llama")
    assert (config.hidden_size, config.num_layers, config.num_heads, config.num_kv_heads, config.head_dim) == (
        64,
        3,
        4,
        2,
        16,
    )
    assert (config.vocab_size, config.context_length, config.dtype) == (100, 512, "float32")
    assert (config.eos_token_ids, config.bos_token_id, config.tie_word_embeddings) == ((2,), 1, False)
    assert config.hf["rms_norm_eps"] == 1e-6  # what the family means where the file is silent


def test_real_gguf_models(smollm2_gguf: Path, qwen25_gguf: Path, gemma3_gguf: Path) -> None:
    smollm2, qwen, gemma = (load_model_config(path) for path in (smollm2_gguf, qwen25_gguf, gemma3_gguf))
    assert (smollm2.format, smollm2.eos_token_ids, smollm2.bos_token_id, smollm2.context_length) == (
        "gguf",
        (2,),
        1,
        8192,
    )
    assert qwen.eos_token_ids == (151645, 151643)  # <|im_end|>, <|endoftext|>
    assert gemma.eos_token_ids == (1, 106)  # <eos>, <end_of_turn>
    assert (gemma.architecture, gemma.head_dim, gemma.num_kv_heads) == ("Gemma3ForCausalLM", 256, 1)


def test_all_that_ends_an_answer_counts(tmp_path: Path) -> None:
    path = folder(
        tmp_path,
        LLAMA | {"eos_token_id": [2, 9]},
        generation_config={"eos_token_id": [9, 11], "temperature": 0.6, "top_p": 0.9, "top_k": None, "max_length": 9},
        tokenizer_config={
            "eos_token": "</s>",
            "added_tokens_decoder": {
                "12": {"content": "</s>"},
                "13": {"content": "<|eot_id|>"},
                "14": {"content": "<x>"},
            },
        },
    )
    config = load_model_config(path)
    assert config.eos_token_ids == (2, 9, 11, 12, 13)
    assert config.generation_config == {"temperature": 0.6, "top_p": 0.9}


def test_added_tokens_are_found_in_tokenizer_json(tmp_path: Path) -> None:
    added = [
        {"id": 7, "content": "<|im_end|>", "special": True},
        {"id": 8, "content": "<|endoftext|>", "special": True},
    ]
    path = folder(tmp_path, LLAMA, tokenizer={"version": "1.0", "added_tokens": added, "model": {"vocab": {"[": 1}}})
    assert load_model_config(path).eos_token_ids == (2, 7)
    path = folder(tmp_path, LLAMA | {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"})
    assert load_model_config(path).eos_token_ids == (2, 7, 8)  # Qwen ends texts with both


def test_overrides_and_dtype(tmp_path: Path) -> None:
    path = folder(tmp_path, LLAMA)
    config = load_model_config(path, overrides={"num_hidden_layers": 1, "rope_theta": 5.0, "eos_token_id": 3})
    assert (config.num_layers, config.hf["rope_theta"], config.eos_token_ids) == (1, 5.0, (3, 2))
    dtypes = {"auto": "float32", "half": "float16", "float16": "float16", "bfloat16": "bfloat16", "float": "float32"}
    assert {name: load_model_config(path, dtype=name).dtype for name in dtypes} == dtypes
    with pytest.raises(ValueError, match="'int4' is not known; accepted: auto"):
        load_model_config(path, dtype="int4")


def test_context_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", raising=False)
    path = folder(tmp_path, LLAMA)
    assert load_model_config(path, context_length=100).context_length == 100
    with pytest.raises(ValueError, match=r"600 is longer than the 512.*SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1"):
        load_model_config(path, context_length=600)
    monkeypatch.setenv("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", "1")
    assert load_model_config(path, context_length=600).context_length == 600
    with pytest.raises(ValueError, match="must be positive"):
        load_model_config(path, context_length=0)


@pytest.mark.parametrize(
    ("scaling", "length"),
    [
        ({"rope_type": "linear", "factor": 4.0}, 2048),
        ({"type": "yarn", "factor": 2.0}, 1024),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}, 512),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 64}, 512),
        ({"rope_type": "default"}, 512),
    ],
)
def test_scaling_rules_stretch_the_context(tmp_path: Path, scaling: dict, length: int) -> None:
    assert load_model_config(folder(tmp_path, LLAMA | {"rope_scaling": scaling})).context_length == length


def test_the_text_part_of_a_model_that_also_sees(tmp_path: Path) -> None:
    config = load_model_config(
        folder(
            tmp_path,
            {
                "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3", "eos_token_id": [1, 106],
                "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
                                "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}},
                "vision_config": {"hidden_size": 1152},
            },
        )
    )  # fmt: skip
    assert (config.architecture, config.model_type) == ("Gemma3ForConditionalGeneration", "gemma3_text")
    assert (config.hidden_size, config.num_heads, config.num_kv_heads, config.head_dim) == (2560, 8, 4, 256)
    assert (config.vocab_size, config.context_length, config.tie_word_embeddings) == (262208, 131072, True)
    assert config.eos_token_ids == (1, 106)
    assert "vision_config" not in config.hf


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architectures": ["BertModel"]}, "'BertModel'.*Supported: LlamaForCausalLM"),
        ({"architectures": None}, "not supported. Supported"),
        ({"hidden_size": None}, "hidden_size in the model's config is None"),
        ({"num_hidden_layers": "3"}, "num_hidden_layers.*'3'"),
        ({"num_key_value_heads": 3}, "4 is not a multiple of num_key_value_heads 3"),
    ],
)
def test_configs_that_do_not_fit(tmp_path: Path, change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_model_config(folder(tmp_path, LLAMA | change))


def test_missing_and_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"no config\.json"):
        load_model_config(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(FormatError, match=r"config\.json: not valid JSON"):
        load_model_config(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(FormatError, match="JSON object, not list"):
        load_model_config(tmp_path)
