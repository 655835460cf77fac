"""Hugging Face folders: dtypes, shards, ties, and checkpoints that don't fit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from sglang.loader.errors import LoadError
from sglang.models.families.llama import LlamaForCausalLM
from unit.models.tiny import Runner, load_model, prompt, tiny_config

Tensors = dict[str, torch.Tensor]
IDS = prompt(20)


def logits(config) -> torch.Tensor:
    model = load_model(config, LlamaForCausalLM)
    return model.logits(Runner(model).step({0: IDS})[0])


@pytest.fixture
def config(reference):
    return tiny_config(reference("llama")[1])


@pytest.fixture
def tensors(config) -> Tensors:
    return load_file(Path(config.path) / "model.safetensors")


def rewrite(config, tensors: Tensors, folder: Path):
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    return replace(config, path=str(folder))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_stored_dtypes_are_widened_exactly(config, tensors, dtype, tmp_path):
    stored = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    (tmp_path / "stored").mkdir()
    (tmp_path / "float32").mkdir()
    exact = {name: tensor.float() for name, tensor in stored.items()}
    got = logits(rewrite(config, stored, tmp_path / "stored"))
    assert torch.equal(got, logits(rewrite(config, exact, tmp_path / "float32")))


def test_bfloat16_checkpoint_equals_transformers(reference, config, tensors, tmp_path):
    oracle, _ = reference("llama")
    stored = {name: tensor.bfloat16() for name, tensor in tensors.items()}
    got = logits(rewrite(config, stored, tmp_path))
    before = {name: value.clone() for name, value in oracle.state_dict().items()}
    oracle.load_state_dict({name: value.float() for name, value in stored.items()})
    want = oracle(torch.tensor([IDS])).logits[0]
    oracle.load_state_dict(before)
    assert (got - want).abs().max() < 1e-4


def test_shards_with_an_index(config, tensors, tmp_path):
    names = sorted(tensors)
    shards = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, part in shards.items():
        save_file({name: tensors[name] for name in part}, tmp_path / file)
    index = {"metadata": {}, "weight_map": {name: file for file, part in shards.items() for name in part}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert torch.equal(logits(replace(config, path=str(tmp_path))), logits(config))


def test_a_head_in_any_shard_is_used_even_if_the_config_says_tied(config):
    assert torch.equal(logits(replace(config, tie_word_embeddings=True)), logits(config))


def test_tied_head_is_the_embedding(config, tensors, tmp_path):
    del tensors["lm_head.weight"]
    tied = logits(replace(rewrite(config, tensors, tmp_path), tie_word_embeddings=True))
    (tmp_path / "untied").mkdir()
    untied = {**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"].clone()}
    assert torch.equal(tied, logits(rewrite(config, untied, tmp_path / "untied")))


def test_old_rotary_buffers_are_no_fault(config, tensors, tmp_path):
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(8)
    assert torch.equal(logits(rewrite(config, tensors, tmp_path)), logits(config))


def test_all_faults_are_named_at_once(config, tensors, tmp_path):
    del tensors["model.norm.weight"]
    del tensors["model.layers.1.self_attn.k_proj.weight"]
    tensors["model.layers.0.mlp.up_proj.weight"] = torch.zeros(95, 64)
    tensors["model.layers.0.self_attn.q_proj.bias"] = torch.zeros(64)
    with pytest.raises(LoadError) as error:
        logits(rewrite(config, tensors, tmp_path))
    text = str(error.value)
    assert text.startswith(f"{tmp_path} doesn't fit its model")
    assert "missing (2): model.layers.1.self_attn.k_proj.weight, model.norm.weight" in text
    assert "model.layers.0.mlp.up_proj.weight has [95, 64], needed [96, 64]" in text
    assert "left over (1): model.layers.0.self_attn.q_proj.bias" in text


def test_long_lists_of_faults_are_cut(config, tensors, tmp_path):
    kept = {name: tensor for name, tensor in tensors.items() if "layers" not in name}
    with pytest.raises(LoadError, match=r"missing \(27\): .*input_layernorm.* and 7 more"):
        logits(rewrite(config, kept, tmp_path))


def test_integer_weights_are_refused(config, tensors, tmp_path):
    tensors["model.norm.weight"] = torch.ones(64, dtype=torch.int32)
    with pytest.raises(LoadError, match=r"'model.norm.weight' has the type I32; supported as weights: F64, F32"):
        logits(rewrite(config, tensors, tmp_path))


def test_unknown_compute_dtype_is_refused(config):
    with pytest.raises(LoadError, match="'int8' is not supported; supported: float32"):
        logits(replace(config, dtype="int8"))


def test_loading_leaves_stderr_alone_without_a_terminal(config, capfd):
    load_model(config, LlamaForCausalLM)
    assert capfd.readouterr().err == ""


def test_progress_shows_on_a_terminal_unless_told_otherwise(config, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    load_model(config, LlamaForCausalLM, show_progress=False)
    assert capsys.readouterr().err == ""
    load_model(config, LlamaForCausalLM)
    assert "Loading weights" in capsys.readouterr().err
