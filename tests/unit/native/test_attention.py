"""Rotary store and attention against the torch backend: heads of any size, every KV type, windows and caps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from sglang.ops.interface import AttentionSpec, BatchRows
from unit.native.single_op import OPS, Array, SingleOp, ints

SLOTS, CONTEXT = 900, 288
KV_TYPES = ["float32", "float16", "bfloat16", "int8"]
STEPS = {"float32": 0.0, "float16": 2.0**-11, "bfloat16": 2.0**-8, "int8": 0.5 / 127}
"""Largest rounding, in parts of the value (int8: of the head's largest value)."""


def random(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@dataclass
class Angles:
    cos: Array
    sin: Array

    @classmethod
    def make(cls, half: int) -> Angles:
        angles = np.outer(np.arange(CONTEXT), 100.0 ** -(np.arange(half) / half))
        return cls(np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32))


@pytest.mark.parametrize("dtype", KV_TYPES)
@pytest.mark.parametrize(("head_dim", "rotary"), [(20, 20), (64, 64), (80, 32), (96, 6)])
def test_rope_store(native: Any, pool: Any, isa: str, dtype: str, head_dim: int, rotary: int) -> None:
    heads, kv_heads, tokens = 6, 2, 7
    angles = Angles.make(rotary // 2)
    qkv, q_norm, k_norm = random(1, tokens, (heads + 2 * kv_heads) * head_dim), random(2, head_dim), random(3, head_dim)
    kv = native.KvPool(SLOTS, kv_heads, head_dim, dtype)
    op = SingleOp(native, pool, isa)
    buffer = op.floats(qkv)
    op.program.add_rope_store(buffer, heads, kv, angles.cos, angles.sin, False, q_norm, k_norm, 1e-4)
    table = np.random.default_rng(4).permutation(SLOTS).astype(np.int32).reshape(3, -1)
    op.run([(4, 10), (1, 1), (2, 200)], table)
    positions = [6, 7, 8, 9, 0, 198, 199]
    slots = ints([*table[0, 6:10], table[1, 0], *table[2, 198:200]])

    parts = torch.from_numpy(qkv).view(tokens, -1, head_dim)
    cos, sin = (torch.from_numpy(a[positions]) for a in (angles.cos, angles.sin))
    q = OPS.rope(OPS.rms_norm(parts[:, :heads], torch.from_numpy(q_norm), 1e-4), cos, sin)
    k = OPS.rope(OPS.rms_norm(parts[:, heads:-kv_heads], torch.from_numpy(k_norm), 1e-4), cos, sin)
    got = op.read(buffer, tokens).view(tokens, -1, head_dim)
    torch.testing.assert_close(got[:, :heads], q, rtol=1e-5, atol=1e-5)
    for stored, want in zip(kv.read(slots), (k, parts[:, -kv_heads:]), strict=True):
        size = want.abs().amax(-1, keepdim=True) if dtype == "int8" else want.abs()
        assert bool(((torch.from_numpy(stored) - want).abs() <= STEPS[dtype] * 1.01 * size + 1e-5).all())
    assert not kv.read(ints([s for s in range(SLOTS) if s not in slots]))[0].any()


def attention(native: Any, pool: Any, isa: str, spec: AttentionSpec, dtype: str, rows: list[tuple[int, int]]) -> None:
    """One step over a pool that is full of other tokens' keys and values."""
    kv = native.KvPool(SLOTS, spec.num_kv_heads, spec.head_dim, dtype)
    width = (spec.num_heads + 2 * spec.num_kv_heads) * spec.head_dim
    fill = SingleOp(native, pool, isa, SLOTS)
    filled = fill.floats(random(1, SLOTS, width))
    fill.program.add_rope_store(filled, spec.num_heads, kv)
    fill.run([(SLOTS, SLOTS)], np.arange(SLOTS, dtype=np.int32)[None])

    tokens = sum(new for new, _ in rows)
    q = random(2, tokens, width)
    op = SingleOp(native, pool, isa, 128)
    out = op.floats(np.zeros((0, spec.num_heads * spec.head_dim), np.float32))
    op.program.add_attention(
        op.floats(q), spec.num_heads, kv, spec.scale, spec.logit_cap or 0.0, spec.window or 0, (out, -1)
    )
    table = np.stack([np.random.default_rng(r).permutation(SLOTS)[:CONTEXT] for r in range(len(rows))])
    table[1:, :130] = table[0, :130]  # a prefix that rows share
    table = table.astype(np.int32)
    op.run(rows, table)

    keys, values = (torch.from_numpy(np.concatenate([a, np.zeros_like(a[:1])])) for a in kv.read(ints(range(SLOTS))))
    batch = BatchRows(ints([n for n, _ in rows]), ints([n for _, n in rows]), ints(range(len(rows))), table, SLOTS)
    queries = torch.from_numpy(q).view(tokens, -1, spec.head_dim)[:, : spec.num_heads].contiguous()
    want = OPS.attention(queries, keys, values, OPS.plan_attention(batch, spec), spec)
    got = op.read(out, tokens).view(tokens, spec.num_heads, spec.head_dim)
    torch.testing.assert_close(got, want, rtol=2e-4, atol=2e-5)


ROWS = [(1, 1), (1, 63), (1, 64), (1, 65), (1, 140), (1, 211), (37, 37), (3, 190), (20, 288)]


@pytest.mark.parametrize("dtype", KV_TYPES)
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(6, 2, 64), (3, 3, 20), (8, 1, 80)])
def test_attention(native: Any, pool: Any, isa: str, dtype: str, heads: int, kv_heads: int, head_dim: int) -> None:
    attention(native, pool, isa, AttentionSpec(heads, kv_heads, head_dim, head_dim**-0.5), dtype, ROWS)


@pytest.mark.parametrize(("window", "cap"), [(1, None), (70, None), (None, 3.0), (100, 5.0)])
def test_windows_and_caps(native: Any, pool: Any, isa: str, window: int | None, cap: float | None) -> None:
    spec = AttentionSpec(4, 2, 32, 0.3, window, cap)
    for dtype in ("float16", "int8"):
        attention(native, pool, isa, spec, dtype, ROWS)


def test_large_heads(native: Any, pool: Any, isa: str) -> None:
    attention(native, pool, isa, AttentionSpec(4, 1, 256, 256**-0.5), "bfloat16", [(1, 70), (9, 80)])


def test_other_rows_change_no_bits(native: Any, pool: Any, isa: str) -> None:
    spec, length = AttentionSpec(6, 2, 64, 0.125), 200
    for dtype in KV_TYPES:
        kv = native.KvPool(SLOTS, 2, 64, dtype)
        fill = SingleOp(native, pool, isa, SLOTS)
        fill.program.add_rope_store(fill.floats(random(1, SLOTS, 640)), 6, kv)
        fill.run([(SLOTS, SLOTS)], np.arange(SLOTS, dtype=np.int32)[None])
        q = random(2, 40, 640)
        table = np.tile(np.random.default_rng(5).permutation(SLOTS)[:length].astype(np.int32), (3, 1))
        table[1:, 150:] = (table[1:, 150:] + 7) % SLOTS
        results = []
        for rows, last in (([(1, length)], 0), ([(1, length), (1, 180), (1, 199)], 0), ([(38, length)], 37)):
            op = SingleOp(native, pool, isa)
            here = q.copy()
            here[last] = q[39]
            out = op.floats(np.zeros((0, 384), np.float32))
            op.program.add_attention(op.floats(here), 6, kv, spec.scale, 0.0, 0, (out, -1))
            op.run(rows, table[: len(rows)])
            results.append(op.read(out, 40)[last])
        assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])
