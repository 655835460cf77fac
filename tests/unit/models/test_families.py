"""Every family against transformers in float32 on tiny random checkpoints."""

from __future__ import annotations

import pytest
import torch

FAMILIES = [
    "llama",
    "llama-tied-biased",
    "llama3-rope",
    "llama-yarn",
    "llama-linear",
    "mistral",
    "qwen2",
    "qwen2-sliding",
    "qwen3",
    "gemma2",
    "gemma3",
    "phi3",
    "phi3-longrope",
]


def prompt(length: int, seed: int = 0) -> list[int]:
    return torch.randint(2, 128, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_equal_transformers(family, reference, load_tiny, make_runner):
    """100 positions: longer than the windows (8), a span of tiles and the original context of the scaled rotaries."""
    oracle, folder = reference(family)
    ids = prompt(100)
    want = oracle(torch.tensor([ids])).logits[0].float()
    model = load_tiny(folder, **({"context_length": 256} if family == "phi3-longrope" else {}))
    got = model.logits(make_runner(model).step({0: ids})[0])
    assert got.dtype == torch.float32
    assert want.std() > 0.1, "the oracle must have something to say"
    assert (got - want).abs().max() < 1e-4


@pytest.mark.parametrize("family", FAMILIES)
def test_decoding_gives_the_bits_of_prefill(family, reference, load_tiny, make_runner):
    model = load_tiny(reference(family)[1])
    ids = prompt(60, seed=1)
    whole = make_runner(model).step({0: ids})[0]
    stepped = make_runner(model, seed=1)
    pieces = [stepped.step({3: ids[:11]})[3]]
    pieces += [stepped.step({3: [token]})[3] for token in ids[11:]]
    assert torch.equal(torch.cat(pieces), whole)
