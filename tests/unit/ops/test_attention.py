"""Attention over a paged pool: against a plain softmax, and bit for bit against itself in other company."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sglang.ops import torch_plan
from sglang.ops.interface import AttentionSpec, BatchRows
from sglang.ops.select import select

OPS = select("cpu")
SPECS = {
    "grouped": AttentionSpec(num_heads=6, num_kv_heads=2, head_dim=16, scale=0.25),
    "one-to-one": AttentionSpec(num_heads=2, num_kv_heads=2, head_dim=32, scale=0.2),
    "shared-by-all": AttentionSpec(num_heads=5, num_kv_heads=1, head_dim=64, scale=0.125),
    "window": AttentionSpec(num_heads=6, num_kv_heads=2, head_dim=16, scale=0.25, window=70),
    "tiny-window": AttentionSpec(num_heads=6, num_kv_heads=2, head_dim=16, scale=0.25, window=1),
    "capped": AttentionSpec(num_heads=6, num_kv_heads=2, head_dim=16, scale=0.25, logit_cap=2.0),
}


class World:
    """Some requests with all their queries, keys and values; steps compute any part of them."""

    def __init__(self, spec: AttentionSpec, lengths: list[int], seed: int = 0) -> None:
        make = torch.Generator().manual_seed(seed)
        self.spec = spec
        self.q = [torch.randn(n, spec.num_heads, spec.head_dim, generator=make) * 2 for n in lengths]
        self.k = [torch.randn(n, spec.num_kv_heads, spec.head_dim, generator=make) for n in lengths]
        self.v = [torch.randn(n, spec.num_kv_heads, spec.head_dim, generator=make) for n in lengths]
        total = sum(lengths)
        slots = np.random.default_rng(seed).permutation(total)
        self.pad_slot = total
        self.table = np.full((len(lengths), max(lengths)), -1, dtype=np.int32)
        self.k_pool = torch.full((total + 1, spec.num_kv_heads, spec.head_dim), torch.nan)
        self.v_pool = self.k_pool.clone()
        self.k_pool[total] = self.v_pool[total] = 0
        start = 0
        for row, n in enumerate(lengths):
            self.table[row, :n] = slots[start : start + n]
            start += n

    def step(self, pieces: list[tuple[int, int, int]]) -> list[Tensor]:
        """Queries ``[start, end)`` of some rows as one step; keys past ``end`` may not exist yet."""
        for row, _, end in pieces:
            used = torch.from_numpy(self.table[row, :end].astype(np.int64))
            OPS.store_kv(self.k[row][:end], self.v[row][:end], self.k_pool, self.v_pool, used)
        rows = BatchRows(
            query_lens=np.array([end - start for _, start, end in pieces]),
            seq_lens=np.array([end for _, _, end in pieces]),
            table_rows=np.array([row for row, _, _ in pieces]),
            slot_table=self.table,
            pad_slot=self.pad_slot,
        )
        q = torch.cat([self.q[row][start:end] for row, start, end in pieces])
        out = OPS.attention(q, self.k_pool, self.v_pool, OPS.plan_attention(rows, self.spec), self.spec)
        return list(out.split(rows.query_lens.tolist()))

    def plain(self, row: int) -> Tensor:
        """Textbook attention of a whole row in float64."""
        spec, n = self.spec, len(self.q[row])
        k, v = (x[row].double().repeat_interleave(spec.group, dim=1) for x in (self.k, self.v))
        scores = torch.einsum("qhd,khd->hqk", self.q[row].double(), k) * spec.scale
        if spec.logit_cap is not None:
            scores = spec.logit_cap * torch.tanh(scores / spec.logit_cap)
        back = torch.arange(n)[:, None] - torch.arange(n)
        visible = (back >= 0) & (back < (spec.window or n))
        weights = scores.masked_fill(~visible, -torch.inf).softmax(-1)
        return torch.einsum("hqk,khd->qhd", weights, v)


@pytest.mark.parametrize("name", SPECS)
def test_equals_plain_softmax(name):
    """Lengths on both sides of a block (64), a tile (32) and a span (1024)."""
    world = World(SPECS[name], [1, 31, 64, 65, 200, 1100])
    got = world.step([(row, 0, len(q)) for row, q in enumerate(world.q)])
    for row, out in enumerate(got):
        assert (out - world.plain(row)).abs().max() < 1e-5, row


@pytest.mark.parametrize("name", SPECS)
def test_last_token_alone_equals_whole_prefill(name):
    world = World(SPECS[name], [1, 2, 63, 64, 65, 129, 1025, 1100], seed=1)
    whole = [world.step([(row, 0, len(q))])[0] for row, q in enumerate(world.q)]
    together = world.step([(row, len(q) - 1, len(q)) for row, q in enumerate(world.q)])
    for row, out in enumerate(together):
        assert torch.equal(out, whole[row][-1:]), row
        assert torch.equal(world.step([(row, len(whole[row]) - 1, len(whole[row]))])[0], out), row


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_cut_in_any_company_gives_the_same_bits(data):
    """Rows are cut at random places; pieces of several rows, prefill and decode mixed, share each step."""
    spec = SPECS[data.draw(st.sampled_from(sorted(SPECS)), label="spec")]
    lengths = data.draw(st.lists(st.integers(1, 300), min_size=1, max_size=5), label="lengths")
    if data.draw(st.booleans(), label="one long row"):
        lengths[0] += 1000
    world = World(spec, lengths, seed=2)
    whole = [world.step([(row, 0, n)])[0] for row, n in enumerate(lengths)]
    done = [0] * len(lengths)
    while any(have < n for have, n in zip(done, lengths, strict=True)):
        waiting = [row for row, n in enumerate(lengths) if done[row] < n]
        chosen = data.draw(st.permutations(waiting), label="rows")[: data.draw(st.integers(1, 5), label="count")]
        sizes = [data.draw(st.sampled_from([1, 1, 3, 32, 100, 1300]), label="size") for _ in chosen]
        pieces = [
            (row, done[row], min(done[row] + size, lengths[row])) for row, size in zip(chosen, sizes, strict=True)
        ]
        for (row, start, end), out in zip(pieces, world.step(pieces), strict=True):
            assert torch.equal(out, whole[row][start:end]), (row, start, end)
            done[row] = end
            if size_is_single(start, end) and done[row] < lengths[row]:
                done[row] = max(done[row], lengths[row] - 40)  # many single tokens take long: skip ahead


def size_is_single(start: int, end: int) -> bool:
    return end - start == 1


def test_memory_limit_changes_nothing(monkeypatch):
    world = World(SPECS["window"], [200, 150, 90, 1100], seed=3)
    pieces = [(0, 0, 200), (1, 149, 150), (2, 50, 90), (3, 900, 1100)]
    want = world.step(pieces)
    monkeypatch.setattr(torch_plan, "VISIT_FLOATS", 1)
    for got, expected in zip(world.step(pieces), want, strict=True):
        assert torch.equal(got, expected)


def test_no_visit_gathers_more_than_the_limit():
    spec = AttentionSpec(num_heads=32, num_kv_heads=8, head_dim=128, scale=0.1)
    table = np.zeros((1, 9000), dtype=np.int32)
    one = np.array([1])
    rows = BatchRows(query_lens=one * 300, seq_lens=one * 9000, table_rows=one * 0, slot_table=table, pad_slot=0)
    plan = torch_plan.plan_attention(rows, spec, 4, torch.device("cpu"))
    (group,) = plan.groups
    assert max(visit.pool_rows.numel() for visit in group.visits) * spec.head_dim <= torch_plan.VISIT_FLOATS


def test_poison_in_one_row_stays_there():
    """NaN keys and values of one request must not reach the others, nor read slots beyond a row's end."""
    world = World(SPECS["grouped"], [40, 90, 10], seed=4)
    pieces = [(0, 39, 40), (1, 20, 90), (2, 0, 10)]
    want = world.step(pieces)
    world.k[1][30] = torch.nan
    world.v[1][30] = torch.inf
    got = world.step(pieces)
    assert torch.equal(got[0], want[0])
    assert torch.equal(got[2], want[2])
    assert got[1][-1].isnan().all()


def test_half_precision_pool_is_summed_in_float32():
    spec = SPECS["grouped"]
    world = World(spec, [150], seed=5)
    for pile in (world.q, world.k, world.v):
        pile[0] = pile[0].bfloat16().float()
    want = world.step([(0, 0, 150)])[0]
    world.k_pool, world.v_pool = world.k_pool.bfloat16(), world.v_pool.bfloat16()
    world.q[0] = world.q[0].bfloat16()
    got = world.step([(0, 0, 150)])[0]
    assert got.dtype == torch.bfloat16
    assert torch.equal(got, want.bfloat16())


def test_impossible_specs_are_refused():
    with pytest.raises(ValueError, match="5 query heads can't share 2"):
        AttentionSpec(num_heads=5, num_kv_heads=2, head_dim=16, scale=1.0)
    with pytest.raises(ValueError, match="window is 0"):
        replace(SPECS["window"], window=0)
