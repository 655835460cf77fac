"""Dequantization against the reference implementation of the gguf package, bit for bit."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from sglang.formats import ggml_types
from sglang.formats.errors import FormatError
from sglang.formats.ggml_types import BLOCK_SHAPE, GGMLType, dequantize, ggml_type


def random_blocks(kind: GGMLType, count: int) -> np.ndarray:
    """Random bytes whose float16 fields are finite: NaN payloads would not compare."""
    rng = np.random.default_rng(int(kind))
    data = rng.integers(0, 256, (count, BLOCK_SHAPE[kind][1]), dtype=np.uint8)
    half_at = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82]}
    half_at |= {"Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "F16": [0]}
    for at in half_at.get(kind.name, []):
        data[:, at : at + 2] = rng.normal(size=(count, 1)).astype("<f2").view(np.uint8)
    if kind in (GGMLType.F32, GGMLType.BF16):
        values = rng.normal(size=count).astype("<f4")
        data = values.view(np.uint8).reshape(count, 4)[:, -BLOCK_SHAPE[kind][1] :]
    return np.ascontiguousarray(data).reshape(-1)


@pytest.mark.parametrize("kind", list(GGMLType), ids=lambda kind: kind.name)
def test_equals_the_reference_bit_for_bit(kind: GGMLType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ggml_types, "CHUNK_BYTES", 1000)  # several chunks, the last one short
    count = 77
    data = random_blocks(kind, count)
    expected = gguf.quants.dequantize(data, gguf.GGMLQuantizationType(int(kind)))
    actual = dequantize(data, kind)
    assert actual.dtype == np.float32
    assert actual.shape == (count * BLOCK_SHAPE[kind][0],)
    assert np.isfinite(expected).all()
    np.testing.assert_array_equal(actual, expected.reshape(-1))


def test_block_shapes_equal_the_reference() -> None:
    for kind, shape in BLOCK_SHAPE.items():
        assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(int(kind))] == shape


def test_values_by_hand() -> None:
    """One Q4_0 block: scale 2, low nibbles 0..15 first, then high nibbles 15..0, offset -8."""
    block = np.array([0x00, 0x40, *[(15 - i) << 4 | i for i in range(16)]], np.uint8)
    values = [2.0 * (i - 8) for i in range(16)] + [2.0 * (7 - i) for i in range(16)]
    assert dequantize(block, GGMLType.Q4_0).tolist() == values


@pytest.mark.parametrize(("number", "name"), [(20, "IQ4_NL"), (99, "number 99")])
def test_unsupported_type_names_tensor_and_type(number: int, name: str) -> None:
    with pytest.raises(FormatError, match=rf"'blk\.0\.w'.*{name}.*Supported.*Q4_K"):
        ggml_type(number, "blk.0.w")
