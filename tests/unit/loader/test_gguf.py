"""GGUF files: the same model as the folder they were converted from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from sglang.loader.errors import LoadError
from sglang.loader.gguf_names import hf_name
from sglang.models.registry import model_class
from unit.models.tiny import Runner, load_model, prompt, tiny_config

IDS = prompt(40)
Q8_0 = gguf.GGMLQuantizationType.Q8_0

LLAMA_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
GEMMA_NAMES = {
    **LLAMA_NAMES,
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
PHI_NAMES = {**LLAMA_NAMES, "self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"}
NAMES = {
    "llama": LLAMA_NAMES,
    "qwen2": LLAMA_NAMES,
    "qwen3": LLAMA_NAMES,
    "gemma2": GEMMA_NAMES,
    "gemma3": GEMMA_NAMES,
    "phi3": PHI_NAMES,
}


def gguf_name(name: str, architecture: str) -> str:
    stem, kind = name.rsplit(".", 1)
    if not stem.startswith("model.layers."):
        return f"{NAMES[architecture][stem]}.{kind}"
    _, _, index, part = stem.split(".", 3)
    return f"blk.{index}.{NAMES[architecture][part]}.{kind}"


def interleave(values: np.ndarray, heads: int) -> np.ndarray:
    """What converters do to llama's q and k: pairs (i, i + half) become neighbours."""
    return values.reshape(heads, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


def convert(
    config,
    architecture: str,
    path: Path,
    *,
    quantize: Callable[[str], bool] = lambda name: False,
    extra: dict[str, np.ndarray] | None = None,
) -> None:
    writer = gguf.GGUFWriter(path, architecture)
    for name, tensor in load_file(Path(config.path) / "model.safetensors").items():
        values, kind = tensor.numpy(), None
        if architecture == "llama" and ("q_proj" in name or "k_proj" in name):
            values = interleave(values, config.num_heads if "q_proj" in name else config.num_kv_heads)
        if architecture.startswith("gemma") and name.endswith("norm.weight"):
            values = values + 1
        if quantize(name):
            values, kind = gguf.quantize(values, Q8_0), Q8_0
        writer.add_tensor(gguf_name(name, architecture), values, raw_dtype=kind)
    for name, values in (extra or {}).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def logits(config) -> torch.Tensor:
    model = load_model(config, model_class(config.architecture))
    return model.logits(Runner(model).step({0: IDS})[0])


@pytest.mark.parametrize("family", ["llama", "llama-tied-biased", "qwen2", "qwen3", "gemma2", "gemma3", "phi3"])
def test_equals_the_folder_it_came_from(family, reference, tmp_path):
    config = tiny_config(reference(family)[1])
    path = tmp_path / "model.gguf"
    convert(config, family.split("-")[0], path)
    got = logits(replace(config, path=str(path), format="gguf"))
    assert (got - logits(config)).abs().max() < 1e-4


def test_quantized_blocks_equal_a_folder_of_their_values(reference, tmp_path):
    """Rows of q and k are put back in order after expansion; other matrices stay float32: types mix freely."""
    config = tiny_config(reference("llama")[1])

    def chosen(name: str) -> bool:
        return "proj.weight" in name and "v_proj" not in name

    convert(config, "llama", tmp_path / "model.gguf", quantize=chosen)
    values = load_file(Path(config.path) / "model.safetensors")
    for name in filter(chosen, values):
        values[name] = torch.from_numpy(gguf.dequantize(gguf.quantize(values[name].numpy(), Q8_0), Q8_0))
    save_file(values, tmp_path / "model.safetensors")
    got = logits(replace(config, path=str(tmp_path / "model.gguf"), format="gguf"))
    assert torch.equal(got, logits(replace(config, path=str(tmp_path))))


def test_stored_rope_divisors_are_used(reference, tmp_path):
    """Llama 3.1 files carry their scaling as a tensor; the metadata says nothing of it."""
    config = tiny_config(reference("llama")[1])
    divisors = np.array([1, 1, 2, 3, 4, 8, 8, 8], dtype=np.float32)
    convert(config, "llama", tmp_path / "model.gguf", extra={"rope_freqs.weight": divisors})
    model = load_model(
        replace(config, path=str(tmp_path / "model.gguf"), format="gguf"), model_class("LlamaForCausalLM")
    )
    want = 100 * 10000.0 ** (-torch.arange(8, dtype=torch.float64) / 8) / torch.from_numpy(divisors).double()
    rotary = model.blocks[0].attention.rotary
    assert torch.allclose(rotary.cos[100].double(), want.cos(), atol=1e-5)
    assert torch.allclose(rotary.sin[100].double(), want.sin(), atol=1e-5)


def test_what_is_missing_is_named_as_in_hugging_face_checkpoints(reference, tmp_path):
    config = tiny_config(reference("llama")[1])
    convert(config, "llama", tmp_path / "model.gguf", extra={"blk.0.attn_sinks.weight": np.zeros(4, dtype=np.float32)})
    wrong = replace(config, path=str(tmp_path / "model.gguf"), format="gguf", num_layers=4)
    with pytest.raises(LoadError) as error:
        logits(wrong)
    assert "missing (9): model.layers.3." in str(error.value)
    assert "model.layers.3.self_attn.q_proj.weight" in str(error.value)
    assert "left over (1): blk.0.attn_sinks.weight" in str(error.value)


@pytest.mark.parametrize(
    ("name", "architecture", "want"),
    [
        ("token_embd.weight", "llama", "model.embed_tokens.weight"),
        ("blk.11.attn_q.bias", "qwen2", "model.layers.11.self_attn.q_proj.bias"),
        ("blk.0.ffn_norm.weight", "llama", "model.layers.0.post_attention_layernorm.weight"),
        ("blk.0.ffn_norm.weight", "gemma3", "model.layers.0.pre_feedforward_layernorm.weight"),
        ("blk.2.ffn_up.weight", "phi3", "model.layers.2.mlp.gate_up_proj.weight"),
        ("blk.2.ffn_gate_exps.weight", "llama", "blk.2.ffn_gate_exps.weight"),
    ],
)
def test_names(name, architecture, want):
    assert hf_name(name, architecture) == want
