"""The reference operations: right values, and rows that never depend on their neighbours."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from sglang.formats.ggml_types import GGMLType
from sglang.formats.raw import RawTensor
from sglang.ops.select import select
from sglang.ops.torch_ops import LARGE_OUT_FEATURES, TorchWeight


def raw(values: Tensor) -> RawTensor:
    kind = GGMLType.F16 if values.dtype == torch.float16 else GGMLType.F32
    return RawTensor("raw", tuple(values.shape), kind, lambda: values.view(torch.uint8).flatten().numpy())


@pytest.fixture
def ops():
    return select("cpu")


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def row_by_row(function, x: Tensor) -> Tensor:
    return torch.cat([function(x[i : i + 1]) for i in range(x.shape[0])])


def test_unknown_backend_lists_the_choices():
    with pytest.raises(ValueError, match=r"'metal'.*choose one of: .*torch"):
        select("cpu", backend="metal")


def test_pack_stacks_parts_in_compute_dtype(ops):
    weight = ops.pack([raw(noise(3, 8).half()), raw(noise(5, 8, seed=1))], "float32")
    assert (weight.out_features, weight.in_features) == (8, 8)
    assert weight.data.dtype == torch.float32
    assert torch.equal(weight.data[:3], noise(3, 8).half().float())
    assert torch.equal(weight.data[3:], noise(5, 8, seed=1))


def test_foreign_weights_are_refused(ops):
    with pytest.raises(TypeError, match="Tensor"):
        ops.linear(noise(1, 4), noise(4, 4))


@pytest.mark.parametrize(("out", "columns"), [(960, 576), (96, 64), (17, 33), (576, 1536), (LARGE_OUT_FEATURES, 16)])
def test_linear_rows_stand_alone(ops, out, columns):
    """Every row count from 1 to 40, some around the tile borders, and shuffled rows: always the same bits."""
    weight = TorchWeight(noise(out, columns))
    x = noise(300, columns, seed=1)
    alone = row_by_row(lambda row: ops.linear(row, weight), x[:140])
    assert torch.allclose(alone, F.linear(x[:140], weight.data), atol=1e-3)
    for rows in [*range(1, 41), 63, 65, 127, 128, 129, 140]:
        assert torch.equal(ops.linear(x[:rows], weight), alone[:rows]), rows
    everything = ops.linear(x, weight)
    assert torch.equal(everything[:140], alone)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(2))
    assert torch.equal(ops.linear(x[order], weight), everything[order])


def test_linear_in_half_precision_stands_alone(ops):
    weight = TorchWeight(noise(96, 64).bfloat16())
    x = noise(70, 64, seed=1).bfloat16()
    assert torch.equal(ops.linear(x, weight), row_by_row(lambda row: ops.linear(row, weight), x))


def test_linear_adds_bias_after_the_product(ops):
    weight, bias, x = TorchWeight(noise(10, 6)), noise(10, seed=3), noise(5, 6, seed=1)
    assert torch.equal(ops.linear(x, weight, bias), ops.linear(x, weight) + bias)


def test_embedding_looks_rows_up(ops):
    weight = TorchWeight(noise(10, 6))
    assert torch.equal(ops.embedding(torch.tensor([7, 0, 7]), weight), weight.data[[7, 0, 7]])


@pytest.mark.parametrize("features", [2, 6, 30, 48, 1536])
@pytest.mark.parametrize("name", ["silu_and_mul", "gelu_tanh_and_mul"])
def test_gates(ops, name, features):
    x = noise(37, 2 * features) * 6
    gate, up = x.chunk(2, dim=-1)
    gated = F.silu(gate) if name == "silu_and_mul" else F.gelu(gate, approximate="tanh")
    function = getattr(ops, name)
    got = function(x)
    assert torch.allclose(got, gated * up, atol=1e-5)
    assert torch.equal(got, row_by_row(function, x))


def test_silu_of_extreme_values_is_finite(ops):
    x = torch.tensor([[-1e4, 1e4, 1.0, 1.0]])
    assert ops.silu_and_mul(x).tolist() == [[0.0, 1e4]]


@pytest.mark.parametrize("size", [16, 66, 576])
def test_rms_norm(ops, size):
    x, residual, weight = noise(33, size), noise(33, size, seed=1), noise(size, seed=2)
    got = ops.rms_norm(x, weight, 1e-6)
    assert torch.allclose(got, F.rms_norm(x, (size,), weight, 1e-6), atol=1e-5)
    assert torch.equal(got, row_by_row(lambda row: ops.rms_norm(row, weight, 1e-6), x))
    normed, total = ops.add_rms_norm(x, residual, weight, 1e-6)
    assert torch.equal(total, x + residual)
    assert torch.equal(normed, ops.rms_norm(x + residual, weight, 1e-6))


def test_rms_norm_of_half_precision_is_computed_in_float32(ops):
    x = torch.full((1, 4), 300.0, dtype=torch.float16)  # its square does not fit in float16
    assert ops.rms_norm(x, torch.ones(4), 1e-6).tolist() == [[1.0, 1.0, 1.0, 1.0]]


def test_rope_turns_halves_and_passes_the_rest(ops):
    x = torch.tensor([[[1.0, 2.0, 3.0, 4.0, 5.0]]])  # rotates (1, 3) and (2, 4)
    cos, sin = torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]])
    assert ops.rope(x, cos, sin).tolist() == [[[-3.0, 2.0, 1.0, 4.0, 5.0]]]


def test_soft_cap_bounds_and_stands_alone(ops):
    x = noise(9, 1001) * 100
    got = ops.soft_cap(x, 30.0)
    assert got.abs().max() <= 30.0
    assert torch.allclose(got, 30.0 * torch.tanh(x / 30.0))
    assert torch.equal(got, row_by_row(lambda row: ops.soft_cap(row, 30.0), x))


def test_store_kv_writes_only_its_slots(ops):
    k_pool, v_pool = torch.zeros(6, 2, 4), torch.zeros(6, 2, 4)
    k, v = noise(2, 2, 4), noise(2, 2, 4, seed=1)
    ops.store_kv(k, v, k_pool, v_pool, torch.tensor([4, 1]))
    assert torch.equal(k_pool[[4, 1]], k)
    assert torch.equal(v_pool[[4, 1]], v)
    assert k_pool[[0, 2, 3, 5]].count_nonzero() == 0
