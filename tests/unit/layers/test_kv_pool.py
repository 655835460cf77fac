"""Pool shapes and sizes."""

from __future__ import annotations

import pytest
import torch

from sglang.config.model_config import ModelConfig
from sglang.layers.kv_pool import KVPool, bytes_per_token

CONFIG = ModelConfig(
    path="",
    format="hf",
    architecture="LlamaForCausalLM",
    hf={},
    vocab_size=8,
    hidden_size=24,
    num_layers=3,
    num_heads=6,
    num_kv_heads=2,
    head_dim=4,
    context_length=16,
    eos_token_ids=(),
)


@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 192), (torch.bfloat16, 96)])
def test_size_can_be_told_beforehand(dtype, size):
    pool = KVPool.for_model(CONFIG, 5, dtype=dtype)
    assert bytes_per_token(CONFIG, dtype) == pool.bytes_per_token() == size


def test_the_pad_slot_lies_after_the_real_ones():
    pool = KVPool.for_model(CONFIG, 5)
    assert (pool.num_slots, pool.pad_slot) == (5, 5)
    assert len(pool.k) == len(pool.v) == 3
    assert pool.v[2].shape == (6, 2, 4)
    assert pool.k[0][pool.pad_slot].count_nonzero() == 0


def test_empty_pools_are_refused():
    with pytest.raises(ValueError, match="at least one slot, got 0"):
        KVPool.for_model(CONFIG, 0)
