"""A one-layer decoder recorded through the binding, against numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INNER, VOCAB = 64, 4, 2, 32, 96, 130
SLOTS, CONTEXT = 400, 200
Array = np.ndarray[Any, Any]


@dataclass
class Tiny:
    """Weights by name, rotary tables, and the program recorded from them."""

    weights: dict[str, Array]
    cos: Array
    sin: Array
    program: Any


def make(native: Any, pool: Any, isa: str) -> Tiny:
    rng = np.random.default_rng(0)
    q, kv = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    shapes = {
        "embed": (VOCAB, HIDDEN), "q": (q, HIDDEN), "k": (kv, HIDDEN), "v": (kv, HIDDEN), "o": (HIDDEN, q),
        "gate": (INNER, HIDDEN), "up": (INNER, HIDDEN), "down": (HIDDEN, INNER),
    }  # fmt: skip
    w = {name: (rng.standard_normal(s) * 0.2).astype(np.float32) for name, s in shapes.items()}
    for name in ("norm1", "norm2", "final"):
        w[name] = (1 + 0.1 * rng.standard_normal(HIDDEN)).astype(np.float32)
    angles = np.outer(np.arange(CONTEXT), 100.0 ** -(np.arange(HEAD_DIM // 2) / (HEAD_DIM // 2)))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    packed = {n: native.pack(pool, 0, w[n].view(np.uint8), *shapes[n], isa=isa) for n in shapes}
    return Tiny(w, cos, sin, record(native, packed, w, cos, sin, isa))


def record(native: Any, packed: dict[str, Any], w: dict[str, Array], cos: Array, sin: Array, isa: str) -> Any:
    q, kv = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    program = native.Program(64, VOCAB, isa=isa)
    pool = native.KvPool(SLOTS, KV_HEADS, HEAD_DIM, "float32")
    x, qkv = program.add_floats(HIDDEN), program.add_floats(q + 2 * kv)
    normed, attended, inner = (program.add_floats(width) for width in (HIDDEN, q, INNER))
    program.add_embedding(packed["embed"], 1.0, x)
    program.add_norm(x, w["norm1"], 1e-5, (normed, -1))
    parts = [(packed["q"], None, 0), (packed["k"], None, q), (packed["v"], None, q + kv)]
    program.add_linear((normed, -1), parts, qkv)
    program.add_rope_store(qkv, HEADS, pool, cos, sin)
    program.add_attention(qkv, HEADS, pool, HEAD_DIM**-0.5, out=(attended, -1))
    program.add_linear((attended, -1), [(packed["o"], None, 0)], x, accumulate=True)
    program.add_norm(x, w["norm2"], 1e-5, (normed, -1))
    program.add_gated_linear((normed, -1), packed["gate"], packed["up"], "silu", (inner, -1))
    program.add_linear((inner, -1), [(packed["down"], None, 0)], x, accumulate=True)
    program.add_head(x, w["final"], 1e-5, packed["embed"])
    return program


def norm(x: Array, weight: Array) -> Array:
    return np.asarray(x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + 1e-5) * weight)


def rotate(x: Array, cos: Array, sin: Array) -> Array:
    a, b = np.split(x, 2, axis=-1)
    c, s = cos[: len(x), None], sin[: len(x), None]
    return np.concatenate([a * c - b * s, b * c + a * s], axis=-1)


def reference(tiny: Tiny, ids: list[int]) -> Array:
    """Logits of the last token, in double precision."""
    w = {name: value.astype(np.float64) for name, value in tiny.weights.items()}
    x = w["embed"][ids]
    n = norm(x, w["norm1"])
    q = rotate((n @ w["q"].T).reshape(-1, HEADS, HEAD_DIM), tiny.cos, tiny.sin)
    k = rotate((n @ w["k"].T).reshape(-1, KV_HEADS, HEAD_DIM), tiny.cos, tiny.sin)
    v = (n @ w["v"].T).reshape(-1, KV_HEADS, HEAD_DIM)
    k, v = (np.repeat(t, HEADS // KV_HEADS, axis=1) for t in (k, v))
    scores = np.einsum("qhd,khd->hqk", q, k) * HEAD_DIM**-0.5
    scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    x = x + np.einsum("hqk,khd->qhd", p, v).reshape(len(ids), -1) @ w["o"].T
    n = norm(x, w["norm2"])
    gate = n @ w["gate"].T
    x = x + (gate / (1 + np.exp(-gate)) * (n @ w["up"].T)) @ w["down"].T
    return np.asarray(norm(x[-1], w["final"]) @ w["embed"].T)


def step(tiny: Tiny, pool: Any, rows: list[tuple[int, list[int], int]], table: Array, **kw: Any) -> dict[str, Array]:
    """rows: (row of the slot table, new ids, position of the first)."""
    positions = [range(start, start + len(ids)) for _, ids, start in rows]
    lens = np.array([len(ids) for _, ids, _ in rows], np.int64)
    result: dict[str, Array] = tiny.program.run(
        pool,
        np.array([i for _, ids, _ in rows for i in ids], np.int64),
        np.array([p for span in positions for p in span], np.int64),
        np.array([table[r][p] for (r, _, _), span in zip(rows, positions, strict=True) for p in span], np.int64),
        lens,
        np.array([start + len(ids) for _, ids, start in rows], np.int64),
        np.array([r for r, _, _ in rows], np.int64),
        table,
        np.cumsum(lens) - 1,
        **kw,
    )
    return result


@pytest.fixture
def table() -> Array:
    return np.random.default_rng(5).permutation(SLOTS).astype(np.int32).reshape(2, CONTEXT)


def test_logits_and_candidates(native: Any, pool: Any, isa: str, table: Array) -> None:
    tiny = make(native, pool, isa)
    ids = [int(i) for i in np.random.default_rng(1).integers(0, VOCAB, 64)]
    out = step(tiny, pool, [(0, ids, 0)], table, full_rows=1, top_k=5, hidden=True)
    want = reference(tiny, ids)
    np.testing.assert_allclose(out["logits"][0], want, atol=2e-4)
    assert out["best_ids"][0] == want.argmax()
    assert out["top_ids"][0].tolist() == np.argsort(-want)[:5].tolist()
    assert out["hidden"].shape == (1, HIDDEN)


def test_bits_do_not_depend_on_the_cut(native: Any, pool: Any, isa: str, table: Array) -> None:
    tiny = make(native, pool, isa)
    rng = np.random.default_rng(2)
    ids, other = ([int(i) for i in rng.integers(0, VOCAB, 80)] for _ in range(2))
    step(tiny, pool, [(0, ids[:40], 0)], table)
    step(tiny, pool, [(0, ids[40:79], 40), (1, other[:9], 0)], table)
    mixed = step(tiny, pool, [(1, other[9:12], 9), (0, ids[79:], 79)], table, full_rows=2)
    step(tiny, native.ThreadPool(1), [(0, ids[:17], 0)], table)
    step(tiny, native.ThreadPool(1), [(0, ids[17:64], 17)], table)
    apart = step(tiny, native.ThreadPool(3), [(0, ids[64:], 64)], table, full_rows=1)
    assert np.array_equal(mixed["logits"][1], apart["logits"][0])


def test_a_bad_step_is_refused(native: Any, pool: Any, table: Array) -> None:
    tiny = make(native, pool, native.instruction_sets()[0])
    with pytest.raises(ValueError, match="token id 130 is not below"):
        step(tiny, pool, [(0, [VOCAB], 0)], table)
    with pytest.raises(ValueError, match="65 tokens; accepted are 1 to 64"):
        step(tiny, pool, [(0, [1] * 65, 0)], table)
    for wrong in (-1, SLOTS):
        bad = table.copy()
        bad[0, 3] = wrong
        with pytest.raises(ValueError, match=r"slot that is not in \[0, 400\)"):
            step(tiny, pool, [(0, [1], 5)], bad)
    with pytest.raises(ValueError, match="table row 2"):
        tiny.program.run(pool, *[np.array([1], np.int64)] * 5, np.array([2], np.int64), table, np.array([0], np.int64))
