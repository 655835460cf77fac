"""Each operation of a program against the torch backend, on odd shapes, for every instruction set."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from sglang.ops.torch_ops import TorchWeight
from unit.native.single_op import DENSE, OPS, QUANTIZED, VOCAB, Array, SingleOp, ints, pack

ROWS = (1, 2, 3, 5, 8, 13, 33)


def random(seed: int, *shape: int, scale: float = 1.0) -> Array:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def unaligned(values: Array) -> Array:
    """The same values at an address that is no multiple of 8."""
    room = np.zeros(values.nbytes + 12, np.uint8)
    start = (4 - room.ctypes.data) % 8
    view = room[start : start + values.nbytes].view(np.float32).reshape(values.shape)
    view[...] = values
    return view


def t(values: Array) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values))


def near(got: torch.Tensor, want: torch.Tensor, tolerance: float) -> None:
    """Within ``tolerance`` of the largest expected value."""
    assert got.shape == want.shape
    torch.testing.assert_close(got, want, rtol=0.0, atol=tolerance * max(1.0, float(want.abs().max())))


@pytest.mark.parametrize("format", [*DENSE, *QUANTIZED])
def test_embedding(native: Any, pool: Any, isa: str, format: str) -> None:
    weight, values = pack(native, pool, isa, random(1, VOCAB, 96), format)
    op = SingleOp(native, pool, isa)
    out = op.floats(np.zeros((0, 96), np.float32))
    op.program.add_embedding(weight, 3.5, out)
    ids = ints([0, 49, 7, 7, 13])
    op.run_tokens(5, ids=ids)
    want = OPS.embedding(t(ids), TorchWeight(values)) * 3.5
    assert torch.equal(op.read(out, 5), want)


@pytest.mark.parametrize("width", [1, 7, 64, 97, 576])
def test_norm(native: Any, pool: Any, isa: str, width: int) -> None:
    x, weight = random(2, 13, width, scale=3.0), unaligned(random(3, width))
    op = SingleOp(native, pool, isa)
    a, out = op.floats(x), op.floats(x[:0])
    op.program.add_norm(a, weight, 1e-5, (out, -1))
    op.run_tokens(13)
    near(op.read(out, 13), OPS.rms_norm(t(x), t(weight), 1e-5), 2e-6)


@pytest.mark.parametrize("width", [32, 96])
@pytest.mark.parametrize("sandwich", [False, True])
def test_residual_norm_in_both_forms(native: Any, pool: Any, isa: str, width: int, sandwich: bool) -> None:
    x, add, weight, inner = (random(s, 9, width) for s in (4, 5, 6, 7))
    op = SingleOp(native, pool, isa)
    a, b, out, blocks = op.floats(x), op.floats(add), op.floats(x[:0]), op.blocks(x[:0])
    inner_weight = inner[0] if sandwich else None
    op.program.add_norm(a, weight[0], 1e-5, (out, blocks), b, inner_weight, 0.5)
    op.run_tokens(9)
    added = OPS.rms_norm(t(add), t(inner[0]), 0.5) if sandwich else t(add)
    want, total = OPS.add_rms_norm(t(x), added, t(weight[0]), 1e-5)
    near(op.read(a, 9), total, 2e-6)
    near(op.read(out, 9), want, 4e-6)
    groups = want.view(9, -1, 32)
    step = (groups.abs().amax(-1, keepdim=True) / 127).expand_as(groups).reshape(9, width)
    assert bool(((op.read(blocks, 9) - want).abs() <= 0.51 * step + 1e-6).all())


def linear(native: Any, pool: Any, isa: str, format: str, rows: int, sizes: list[int], depth: int) -> None:
    """Several matrices with and without a bias, on top of what was there, into one wider buffer."""
    x, before = random(rows, rows, depth), random(8, rows, sum(sizes) + 3)
    op = SingleOp(native, pool, isa)
    floats = op.floats(x)
    blocks = -1 if format in DENSE else op.blocks(x)
    out = op.floats(before)
    seen = t(x) if format in DENSE else op.read(blocks, rows)
    want, parts, column = t(before).clone(), [], 1
    for i, n in enumerate(sizes):
        weight, values = pack(native, pool, isa, random(n, n, depth, scale=0.3), format)
        bias = unaligned(random(9, n)) if i % 2 == 0 else None
        parts.append((weight, bias, column))
        want[:, column : column + n] += OPS.linear(seen, TorchWeight(values), None if bias is None else t(bias))
        column += n
    op.program.add_linear((floats, blocks), parts, out, accumulate=True)
    op.run_tokens(rows)
    near(op.read(out, rows), want, 1e-5)


@pytest.mark.parametrize("format", [*DENSE, *QUANTIZED])
def test_linear_of_any_rows(native: Any, pool: Any, isa: str, format: str) -> None:
    for rows in ROWS:
        linear(native, pool, isa, format, rows, [33, 1, 70], 96)


@pytest.mark.parametrize("format", DENSE)
def test_linear_of_odd_depth(native: Any, pool: Any, isa: str, format: str) -> None:
    for depth in (1, 45):
        linear(native, pool, isa, format, 6, [1, 15], depth)


@pytest.mark.parametrize("format", [*DENSE, "int8"])
def test_an_empty_product(native: Any, pool: Any, isa: str, format: str) -> None:
    weight, _ = pack(native, pool, isa, random(1, 7, 32), format)
    assert native.linear(pool, weight, np.zeros((0, 32), np.float32)).shape == (0, 7)


@pytest.mark.parametrize("format", [*DENSE, "int8"])
@pytest.mark.parametrize("kind", ["silu", "gelu_tanh"])
def test_gated_linear(native: Any, pool: Any, isa: str, format: str, kind: str) -> None:
    act = OPS.silu_and_mul if kind == "silu" else OPS.gelu_tanh_and_mul
    for rows, inner in ((1, 45), (5, 1), (35, 96)):
        x, gate_bias, up_bias = random(rows, rows, 64), random(2, inner), random(3, inner)
        op = SingleOp(native, pool, isa)
        floats, out = op.floats(x), op.floats(np.zeros((0, inner), np.float32))
        blocks = -1 if format in DENSE else op.blocks(x)
        out_blocks = op.blocks(np.zeros((0, inner), np.float32)) if inner % 32 == 0 else -1
        seen = t(x) if format in DENSE else op.read(blocks, rows)
        gate, gate_values = pack(native, pool, isa, random(4, inner, 64, scale=0.3), format)
        up, up_values = pack(native, pool, isa, random(5, inner, 64, scale=0.3), format)
        op.program.add_gated_linear((floats, blocks), gate, up, kind, (out, out_blocks), gate_bias, up_bias)
        op.run_tokens(rows)
        both = TorchWeight(torch.cat([gate_values, up_values]))
        want = act(OPS.linear(seen, both, torch.cat([t(gate_bias), t(up_bias)])))
        near(op.read(out, rows), want, 1e-5)
        if out_blocks >= 0:
            near(op.read(out_blocks, rows), want, 0.5 / 127 + 1e-5)


def test_halves_of_one_matrix(native: Any, pool: Any, isa: str) -> None:
    """A checkpoint's merged gate and up: packed as row ranges of its bytes, or sliced after packing."""
    values, x = random(1, 96, 64), random(2, 5, 64)
    apart = [native.pack(pool, 0, values[i : i + 48].view(np.uint8), 48, 64, isa=isa) for i in (0, 48)]
    whole = native.pack(pool, 0, values.view(np.uint8), 96, 64, isa=isa)
    results = []
    for gate, up in (apart, (whole.slice(0, 48), whole.slice(48, 96))):
        op = SingleOp(native, pool, isa)
        a, out = op.floats(x), op.floats(np.zeros((0, 48), np.float32))
        op.program.add_gated_linear((a, -1), gate, up, "silu", (out, -1))
        op.run_tokens(5)
        results.append(op.read(out, 5))
    near(results[0], OPS.silu_and_mul(OPS.linear(t(x), TorchWeight(t(values)))), 1e-5)
    assert torch.equal(results[0], results[1])


@pytest.mark.parametrize("format", [*DENSE, "int8"])
def test_head(native: Any, pool: Any, isa: str, format: str) -> None:
    x, norm = random(1, 40, 64), random(2, 64)
    weight, values = pack(native, pool, isa, random(3, VOCAB, 64), format)
    outputs = [0, 3, 39, 3]
    for cap in (0.0, 5.0):
        op = SingleOp(native, pool, isa)
        a = op.floats(x)
        op.program.add_head(a, norm, 1e-5, weight, cap)
        got = op.run_tokens(40, outputs=outputs, full_rows=3, top_k=4, hidden=True)
        states = OPS.rms_norm(t(x[outputs]), t(norm), 1e-5)
        near(t(got["hidden"]), states, 2e-6)
        want = OPS.linear(states, TorchWeight(values))
        want = OPS.soft_cap(want, cap) if cap else want
        near(t(got["logits"]), want[:3], 1e-5 if format in DENSE else 0.04)
        for i in range(3):
            order = np.lexsort((np.arange(VOCAB), -got["logits"][i]))[:4]
            assert got["top_ids"][i].tolist() == order.tolist()
            assert got["top_values"][i].tolist() == got["logits"][i][order].tolist()
        assert got["best_ids"].tolist() == got["top_ids"][:, 0].tolist()
        assert got["top_ids"][3].tolist() == got["top_ids"][1].tolist()  # the same token, logits not written
        empty = op.run_tokens(40, top_k=4)
        assert empty["logits"].shape == (0, VOCAB) and empty["top_ids"].shape == (0, 4)


def mask_of(words: int, *tokens: int) -> Array:
    bits = np.zeros(32 * words, np.uint8)
    bits[list(tokens)] = 1
    return np.packbits(bits, bitorder="little").view(np.int32)


@pytest.mark.parametrize("words", [22, 30, 10])  # of the vocabulary, more, and fewer
def test_head_with_masks(native: Any, pool: Any, isa: str, words: int) -> None:
    vocab, x, norm = 700, random(1, 40, 64), random(2, 64)
    weight, _ = pack(native, pool, isa, random(3, vocab, 64), "int8")
    op = SingleOp(native, pool, isa, vocab=vocab)
    op.program.add_head(op.floats(x), norm, 1e-5, weight, 5.0)
    logits = op.run_tokens(40, outputs=range(40), full_rows=40)["logits"]
    some = np.random.default_rng(4).permutation(32 * words)
    for masks in (
        [None, mask_of(words, *some[:100]), mask_of(words), mask_of(words, 31, 32, 255, 256), None] * 8,
        [mask_of(words, 300 + row % 2) for row in range(40)],  # most of the vocabulary is not computed
    ):
        got = op.run_tokens(40, outputs=range(40), full_rows=1, top_k=3, masks=masks)
        assert np.array_equal(got["logits"][0], logits[0])  # whole rows are not masked
        for row in range(1, 40):
            want = logits[row].copy()
            if (mask := masks[row]) is not None:
                allowed = np.unpackbits(mask.view(np.uint8), bitorder="little")[:vocab]
                want[np.pad(allowed, (0, vocab - len(allowed))) == 0] = -np.inf
            order = np.lexsort((np.arange(vocab), -want))[:3]
            assert got["top_values"][row].tolist() == want[order].tolist()
            finite = np.isfinite(want[order])
            assert got["top_ids"][row][finite].tolist() == order[finite].tolist()
            assert got["best_values"][row] == want.max()
        best = op.run_tokens(40, outputs=range(40), masks=masks, full_rows=1)
        assert best["best_values"].tolist() == got["best_values"].tolist()
        found = np.isfinite(best["best_values"])
        assert best["best_ids"][found].tolist() == got["best_ids"][found].tolist()
