"""Packed weights against the gguf package's own dequantisation, and products against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, dequantize
from gguf.constants import GGML_QUANT_SIZES

SIMPLE = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]
TWO_LEVEL = ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]
HALVES = {  # float16 fields of a block
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}  # fmt: skip


def random_rows(name: str, n: int, k: int, seed: int) -> np.ndarray:
    """Random blocks: any bytes are valid once their float16 fields are tame."""
    rng = np.random.default_rng(seed)
    values, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    blocks = rng.integers(0, 256, (n * k // values, size), dtype=np.uint8)
    for at in HALVES[name]:
        half = (rng.standard_normal(len(blocks)) * 0.01).astype(np.float16)
        blocks[:, at : at + 2] = half.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(n, -1)


@pytest.mark.parametrize("name", SIMPLE + TWO_LEVEL)
def test_packing_keeps_every_value(native: Any, pool: Any, isa: str, name: str) -> None:
    n, k = 21, 512
    kind = GGMLQuantizationType[name]
    rows = random_rows(name, n, k, seed=int(kind))
    weight = native.pack(pool, int(kind), rows, n, k, isa=isa)
    assert (weight.n, weight.k, weight.quantized) == (n, k, True)
    want = dequantize(rows, kind)
    np.testing.assert_allclose(weight.rows(0, n), want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", SIMPLE + TWO_LEVEL)
@pytest.mark.parametrize("rows", [1, 5, 8, 19])
def test_products_are_near_those_of_floats(native: Any, pool: Any, isa: str, name: str, rows: int) -> None:
    n, k = 37, 768
    kind = GGMLQuantizationType[name]
    blocks = random_rows(name, n, k, seed=7)
    x = np.random.default_rng(rows).standard_normal((rows, k)).astype(np.float32)
    weight = native.pack(pool, int(kind), blocks, n, k, isa=isa)
    want = x @ dequantize(blocks, kind).T
    error = native.linear(pool, weight, x) - want
    assert np.sqrt(np.mean(error**2)) < 0.01 * np.sqrt(np.mean(want**2))


def test_dense_products_and_odd_depths(native: Any, pool: Any, isa: str) -> None:
    rng = np.random.default_rng(3)
    w = rng.standard_normal((19, 45)).astype(np.float32)
    x = rng.standard_normal((6, 45)).astype(np.float32)
    for number, stored in ((0, w), (1, w.astype(np.float16))):
        weight = native.pack(pool, number, stored.view(np.uint8), 19, 45, isa=isa)
        want = x @ stored.astype(np.float32).T
        np.testing.assert_allclose(native.linear(pool, weight, x), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("format", "tolerance"), [("int8", 0.006), ("int4", 0.1)])
def test_quantising_floats_at_load(native: Any, pool: Any, format: str, tolerance: float) -> None:
    w = np.random.default_rng(4).standard_normal((33, 256)).astype(np.float32)
    got = native.quantize(pool, w, format).rows(0, 33)
    assert np.sqrt(np.mean((got - w) ** 2)) < tolerance


def test_a_row_has_the_same_bits_in_any_company(native: Any, pool: Any, isa: str) -> None:
    blocks = random_rows("Q5_0", 50, 256, seed=9)
    weight = native.pack(pool, int(GGMLQuantizationType.Q5_0), blocks, 50, 256, isa=isa)
    x = np.random.default_rng(1).standard_normal((23, 256)).astype(np.float32)
    together = native.linear(pool, weight, x)
    for i in (0, 7, 22):
        assert np.array_equal(native.linear(pool, weight, x[i : i + 1])[0], together[i])


def test_errors_say_what_was_given(native: Any, pool: Any) -> None:
    with pytest.raises(ValueError, match="does not fit 100 bytes"):
        native.pack(pool, 2, np.zeros(100, np.uint8), 4, 64)
    with pytest.raises(ValueError, match="accepted are int8, int4"):
        native.quantize(pool, np.zeros((2, 32), np.float32), "int3")
    with pytest.raises(ValueError, match="'sse9'"):
        native.quantize(pool, np.zeros((2, 32), np.float32), "int8", isa="sse9")
