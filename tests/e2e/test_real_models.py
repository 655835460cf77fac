"""Greedy tokens and prompt logprobs of real models equal ``transformers`` in float32 on the same dequantized weights.

The oracle scores our own continuation in one pass: if its argmax at every position, given our tokens so far, is the
token we produced, then its greedy continuation is ours. Where activations are rounded to int8 (quantized files on the
native kernels) tokens are nearly as likely as the oracle's, and logprobs near its own.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import save_file

import sglang
from e2e.prompts import PROMPTS

NEW_TOKENS = 64
MODELS = ["smollm2_gguf", "gemma3_gguf", "qwen25_gguf"]


@pytest.fixture(scope="module", params=MODELS)
def gguf(request: pytest.FixtureRequest) -> Path:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def oracle(gguf: Path) -> Iterator[transformers.PreTrainedModel]:
    model = transformers.AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32, attn_implementation="eager"
    )
    yield model.eval()
    del model
    gc.collect()


@pytest.fixture(scope="module")
def folder(gguf: Path, oracle: transformers.PreTrainedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same weights as a safetensors folder."""
    path = tmp_path_factory.mktemp("hf")
    config = json.loads(oracle.config.to_json_string())
    config.pop("quantization_config", None)  # the weights are float32 by now
    config["architectures"] = [type(oracle).__name__]
    (path / "config.json").write_text(json.dumps(config))
    tied = {"lm_head.weight"} if config.get("tie_word_embeddings", True) else set()
    state = {name: tensor.contiguous() for name, tensor in oracle.state_dict().items() if name not in tied}
    save_file(state, path / "model.safetensors", metadata={"format": "pt"})
    return path


def run(model: Path, tokenizer: Path, **flags: Any) -> list[dict[str, Any]]:
    params = {"temperature": 0, "max_new_tokens": NEW_TOKENS, "ignore_eos": True}
    with sglang.Engine(model_path=str(model), tokenizer_path=str(tokenizer), max_total_tokens=8192, **flags) as engine:
        return engine.generate(PROMPTS, params, return_logprob=True, logprob_start_len=0)


def compare(result: dict[str, Any], oracle: transformers.PreTrainedModel) -> tuple[torch.Tensor, torch.Tensor]:
    """How much likelier the oracle's favourite is than each token of ours; how far each logprob is off."""
    meta = result["meta_info"]
    prompt = [entry[1] for entry in meta["input_token_logprobs"]]
    ids = torch.tensor([prompt + result["output_ids"]])
    with torch.inference_mode():
        logprobs = oracle(ids).logits[0].log_softmax(-1)
    theirs = logprobs[:-1].gather(1, ids[0, 1:, None])[:, 0]
    ours = [entry[0] for entry in meta["input_token_logprobs"][1:] + meta["output_token_logprobs"]]
    start = len(prompt) - 1
    assert meta["completion_tokens"] == NEW_TOKENS
    return logprobs[start:-1].amax(-1) - theirs[start:], (theirs - torch.tensor(ours)).abs()


def check(results: list[dict[str, Any]], oracle: transformers.PreTrainedModel) -> None:
    for result in results:
        behind, off = compare(result, oracle)
        assert behind.max().item() == 0
        assert off.max().item() < 1e-3


def test_the_reference_equals_transformers(gguf: Path, oracle: transformers.PreTrainedModel) -> None:
    check(run(gguf, gguf, attention_backend="torch_native"), oracle)


def test_native_float32_equals_transformers(folder: Path, gguf: Path, oracle: transformers.PreTrainedModel) -> None:
    check(run(folder, gguf, kv_cache_dtype="float32"), oracle)


def test_native_quantized_comes_near_transformers(gguf: Path, oracle: transformers.PreTrainedModel) -> None:
    pairs = [compare(result, oracle) for result in run(gguf, gguf)]
    behind, off = (torch.cat(column) for column in zip(*pairs, strict=True))
    assert behind.max().item() < 2
    assert (behind > 0).float().mean().item() < 0.05
    assert off.mean().item() < 0.05
