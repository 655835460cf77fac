"""GGML block types: sizes, and exact dequantization to float32 with numpy.

A tensor of a quantized type is a run of fixed-size blocks. Each ``_unpack_*`` turns ``blocks`` (uint8,
``[n, block bytes]``) into ``out`` (float32, ``[n, block elements]``). Products are formed in the order
(block scale x sub-scale) x quant, so results are bit-identical to the GGML reference implementation.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from sglang.formats.errors import FormatError

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

CHUNK_BYTES = 1 << 18
"""Quantized bytes unpacked at a time: small enough that all temporaries stay in the cache."""


class GGMLType(IntEnum):
    """Tensor types that can be read; the values are those stored in the file."""

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    BF16 = 30


BLOCK_SHAPE: dict[GGMLType, tuple[int, int]] = {
    GGMLType.F32: (1, 4),
    GGMLType.F16: (1, 2),
    GGMLType.BF16: (1, 2),
    GGMLType.Q4_0: (32, 18),
    GGMLType.Q4_1: (32, 20),
    GGMLType.Q5_0: (32, 22),
    GGMLType.Q5_1: (32, 24),
    GGMLType.Q8_0: (32, 34),
    GGMLType.Q2_K: (256, 84),
    GGMLType.Q3_K: (256, 110),
    GGMLType.Q4_K: (256, 144),
    GGMLType.Q5_K: (256, 176),
    GGMLType.Q6_K: (256, 210),
}
"""Type -> (elements, bytes) of one block."""

UNSUPPORTED_NAMES = {
    9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S",
    22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M",
    34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip
"""Names of types that exist but can't be read, for error messages."""


def ggml_type(number: int, tensor_name: str) -> GGMLType:
    """The type with this number; :class:`FormatError` names the tensor when it is not supported."""
    try:
        return GGMLType(number)
    except ValueError:
        name = UNSUPPORTED_NAMES.get(number, f"number {number}")
        accepted = ", ".join(kind.name for kind in GGMLType)
        raise FormatError(
            f"tensor {tensor_name!r} has the unsupported type {name}. Supported: {accepted}. "
            "Use a file quantized to one of these types."
        ) from None


def dequantize(data: Bytes, kind: GGMLType) -> Floats:
    """Raw bytes of whole blocks -> their elements, float32, one-dimensional (a fresh, writable array)."""
    if kind is GGMLType.F32:
        return data.view("<f4").astype(np.float32)
    if kind is GGMLType.F16:
        return data.view("<f2").astype(np.float32)
    if kind is GGMLType.BF16:
        return (data.view("<u2").astype(np.uint32) << 16).view(np.float32)
    elements, size = BLOCK_SHAPE[kind]
    blocks = data.reshape(-1, size)
    out = np.empty((len(blocks), elements), np.float32)
    unpack = _UNPACK[kind]
    step = max(1, CHUNK_BYTES // size)
    for start in range(0, len(blocks), step):
        unpack(blocks[start : start + step], out[start : start + step])
    return out.reshape(-1)


def _half(blocks: Bytes, at: int) -> Floats:
    """The float16 at byte ``at`` of each block, as a float32 column [n, 1]."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def _nibbles(packed: Bytes, out: npt.NDArray[Any]) -> None:
    """Low nibbles of [n, 16] bytes to the first half of ``out`` [n, 32], high nibbles to the second."""
    out[:, :16] = packed & 15
    out[:, 16:] = packed >> 4


def _fifth_bits(blocks: Bytes, at: int) -> Bytes:
    """Bit j of the little-endian 32-bit word at ``at``, moved to bit 4: [n, 32]."""
    return np.unpackbits(blocks[:, at : at + 4], axis=1, bitorder="little") << np.uint8(4)


def _unpack_q4_0(blocks: Bytes, out: Floats) -> None:
    _nibbles(blocks[:, 2:], out)
    out -= 8
    out *= _half(blocks, 0)


def _unpack_q4_1(blocks: Bytes, out: Floats) -> None:
    _nibbles(blocks[:, 4:], out)
    out *= _half(blocks, 0)
    out += _half(blocks, 2)


def _unpack_q5_0(blocks: Bytes, out: Floats) -> None:
    quants = _fifth_bits(blocks, 2)
    quants[:, :16] |= blocks[:, 6:] & 15
    quants[:, 16:] |= blocks[:, 6:] >> 4
    out[:] = quants
    out -= 16
    out *= _half(blocks, 0)


def _unpack_q5_1(blocks: Bytes, out: Floats) -> None:
    quants = _fifth_bits(blocks, 4)
    quants[:, :16] |= blocks[:, 8:] & 15
    quants[:, 16:] |= blocks[:, 8:] >> 4
    out[:] = quants
    out *= _half(blocks, 0)
    out += _half(blocks, 2)


def _unpack_q8_0(blocks: Bytes, out: Floats) -> None:
    out[:] = blocks[:, 2:].view(np.int8)
    out *= _half(blocks, 0)


def _shifted(packed: Bytes, shifts: range, mask: int) -> Bytes:
    """[n, groups, width] bytes -> [n, groups, len(shifts), width]: each byte read at every shift."""
    steps = np.array(shifts, np.uint8).reshape(1, 1, -1, 1)
    return (packed[:, :, None, :] >> steps) & np.uint8(mask)


def _k4_scales(packed: Bytes) -> tuple[Bytes, Bytes]:
    """The eight 6-bit scales and eight 6-bit minima packed in 12 bytes: two [n, 8] arrays."""
    low, mid, high = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([low & 63, (high & 15) | (low >> 6 << 4)], axis=1)
    minima = np.concatenate([mid & 63, (high >> 4) | (mid >> 6 << 4)], axis=1)
    return scales, minima


def _apply(out: Floats, quants: npt.NDArray[Any], scale: Floats, minimum: Floats | None = None) -> None:
    """``out = scale x quants - minimum`` with one scale [n, groups] for each group of elements."""
    grouped = out.reshape(len(out), scale.shape[1], -1)
    grouped[:] = quants.reshape(grouped.shape)
    grouped *= scale[:, :, None]
    if minimum is not None:
        grouped -= minimum[:, :, None]


def _unpack_q2_k(blocks: Bytes, out: Floats) -> None:
    packed = blocks[:, :16]  # low nibble: scale, high nibble: minimum, one byte for 16 elements
    quants = _shifted(blocks[:, 16:80].reshape(-1, 2, 32), range(0, 8, 2), 3)
    _apply(out, quants, _half(blocks, 80) * (packed & 15), _half(blocks, 82) * (packed >> 4))


def _unpack_q3_k(blocks: Bytes, out: Floats) -> None:
    high_bits = _shifted(blocks[:, None, :32], range(8), 1).reshape(-1, 256)
    low_bits = _shifted(blocks[:, 32:96].reshape(-1, 2, 32), range(0, 8, 2), 3).reshape(-1, 256)
    quants = (low_bits | high_bits << 2).astype(np.int8) - np.int8(4)
    low = _shifted(blocks[:, None, 96:104], range(0, 8, 4), 15).reshape(-1, 16)
    high = _shifted(blocks[:, None, 104:108], range(0, 8, 2), 3).reshape(-1, 16)
    scales = (low | high << 4).astype(np.int8) - np.int8(32)
    _apply(out, quants, _half(blocks, 108) * scales)


def _unpack_q4_k(blocks: Bytes, out: Floats) -> None:
    scales, minima = _k4_scales(blocks[:, 4:16])
    quants = _shifted(blocks[:, 16:144].reshape(-1, 4, 32), range(0, 8, 4), 15)
    _apply(out, quants, _half(blocks, 0) * scales, _half(blocks, 2) * minima)


def _unpack_q5_k(blocks: Bytes, out: Floats) -> None:
    scales, minima = _k4_scales(blocks[:, 4:16])
    fifth = _shifted(blocks[:, None, 16:48], range(8), 1).reshape(-1, 256)
    quants = _shifted(blocks[:, 48:176].reshape(-1, 4, 32), range(0, 8, 4), 15).reshape(-1, 256) | fifth << 4
    _apply(out, quants, _half(blocks, 0) * scales, _half(blocks, 2) * minima)


def _unpack_q6_k(blocks: Bytes, out: Floats) -> None:
    low = _shifted(blocks[:, :128].reshape(-1, 2, 64), range(0, 8, 4), 15).reshape(-1, 256)
    high = _shifted(blocks[:, 128:192].reshape(-1, 2, 32), range(0, 8, 2), 3).reshape(-1, 256)
    quants = (low | high << 4).astype(np.int8) - np.int8(32)
    _apply(out, quants, _half(blocks, 208) * blocks[:, 192:208].view(np.int8))


_UNPACK: dict[GGMLType, Callable[[Bytes, Floats], None]] = {
    GGMLType.Q4_0: _unpack_q4_0,
    GGMLType.Q4_1: _unpack_q4_1,
    GGMLType.Q5_0: _unpack_q5_0,
    GGMLType.Q5_1: _unpack_q5_1,
    GGMLType.Q8_0: _unpack_q8_0,
    GGMLType.Q2_K: _unpack_q2_k,
    GGMLType.Q3_K: _unpack_q3_k,
    GGMLType.Q4_K: _unpack_q4_k,
    GGMLType.Q5_K: _unpack_q5_k,
    GGMLType.Q6_K: _unpack_q6_k,
}
