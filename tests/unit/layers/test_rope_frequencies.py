"""Frequency rules against transformers, and the reading of old and new configs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from sglang.layers.rope_frequencies import frequencies, read_rope

COMMON = {"rope_theta": 500000.0, "original_max_position_embeddings": 1024}
FACTORS = [1.0 + 0.5 * i for i in range(16)]
SCALINGS = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0},
    "yarn-tuned": {"rope_type": "yarn", "factor": 40.0, "beta_fast": 16, "beta_slow": 2, "truncate": False},
    "yarn-mscale": {"rope_type": "yarn", "factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.7},
    "yarn-given": {"rope_type": "yarn", "factor": 4.0, "attention_factor": 0.9},
    "longrope": {"rope_type": "longrope", "factor": 4.0, "long_factor": FACTORS, "short_factor": FACTORS[::-1]},
}


def hf_config(scaling: dict[str, object]) -> LlamaConfig:
    return LlamaConfig(
        hidden_size=64, num_attention_heads=2, max_position_embeddings=4096, rope_parameters={**COMMON, **scaling}
    )


@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("length", [1000, 4096])
def test_rules_equal_transformers(name, length):
    config = hf_config(SCALINGS[name])
    want, magnitude = ROPE_INIT_FUNCTIONS[SCALINGS[name]["rope_type"]](config, torch.device("cpu"), seq_len=length)
    got, factor = frequencies(read_rope(config.to_dict(), 32), length)
    assert np.allclose(got, want.numpy(), rtol=1e-6, atol=0)
    assert factor == pytest.approx(magnitude)


def test_default_and_partial_rotation():
    inverse, factor = frequencies(read_rope({"rope_theta": 100.0, "partial_rotary_factor": 0.5}, 8), 10)
    assert inverse.tolist() == pytest.approx([1.0, 0.1])
    assert factor == 1.0


def test_old_and_new_spelling_mean_the_same():
    old = {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 2.0}}
    new = {"rope_parameters": {"rope_type": "linear", "rope_theta": 500.0, "factor": 2.0}}
    by_type = {"rope_parameters": {"full_attention": new["rope_parameters"], "sliding_attention": {"rope_theta": 9.0}}}
    want = frequencies(read_rope(old, 16), 10)[0]
    assert np.array_equal(frequencies(read_rope(new, 16), 10)[0], want)
    assert np.array_equal(frequencies(read_rope(by_type, 16, "full_attention"), 10)[0], want)
    assert read_rope(by_type, 16, "sliding_attention").theta == 9.0


def test_su_is_the_old_name_of_longrope():
    assert read_rope({"rope_scaling": {"type": "su"}}, 16).kind == "longrope"


def test_dynamic_scaling_is_plain_within_the_trained_context_and_refused_beyond():
    hf = {"max_position_embeddings": 128, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}
    inverse, _ = frequencies(read_rope(hf, 16), 128)
    assert inverse[1] == pytest.approx(math.pow(10000.0, -1 / 8))
    with pytest.raises(ValueError, match="--context-length 128 or less"):
        frequencies(read_rope(hf, 16), 129)


def test_unknown_rules_list_the_known_ones():
    with pytest.raises(ValueError, match=r"'mrope' is not supported; supported: .*longrope"):
        frequencies(read_rope({"rope_scaling": {"rope_type": "mrope"}}, 16), 10)


def test_factor_lists_of_the_wrong_length_are_refused():
    scaling = {"rope_type": "longrope", "long_factor": [1.0], "short_factor": [1.0, 2.0]}
    with pytest.raises(ValueError, match="short_factor has 2 entries; 8 are needed"):
        frequencies(read_rope({"max_position_embeddings": 64, "rope_scaling": scaling}, 16), 10)
