"""Attention over a paged pool in plain torch, the same bits for decode, chunked and whole prefill.

Softmax over a long row is merged span by span (online softmax, arXiv:1805.02867). What makes it invariant:

- all matrix products have one key shape, a block of BLOCK keys, and row counts proven to agree (``row_tiles``);
- inside a span the maximum is taken first (a maximum has no rounding), then blocks are summed in ascending order;
- spans are merged in ascending order, at borders that depend on absolute positions only;
- hidden keys get weight exp(-inf) = 0, and adding zeros before or after the visible blocks changes nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sglang.ops.interface import AttentionSpec
from sglang.ops.row_tiles import MatMul
from sglang.ops.torch_plan import BLOCK, TileGroup, TorchAttentionPlan, Visit

LOWEST = torch.finfo(torch.float32).min
"""Stands for "no key seen yet": unlike -inf it can be subtracted from itself."""


def run_attention(q: Tensor, k_pool: Tensor, v_pool: Tensor, plan: TorchAttentionPlan, spec: AttentionSpec) -> Tensor:
    """See :meth:`sglang.ops.interface.Ops.attention`. Scores and sums are float32 whatever the compute dtype."""
    scaled = q.float() * spec.scale
    k_rows, v_rows = k_pool.view(-1, spec.head_dim), v_pool.view(-1, spec.head_dim)
    results = [_run_group(scaled, k_rows, v_rows, group, spec) for group in plan.groups]
    joined = results[0] if len(results) == 1 else torch.cat(results)
    return joined.index_select(0, plan.places).to(q.dtype)


def _run_group(q: Tensor, k_rows: Tensor, v_rows: Tensor, group: TileGroup, spec: AttentionSpec) -> Tensor:
    """Results for all places of a group, ``[tiles * tile_tokens, H, D]``."""
    kv_heads, head_dim, width = spec.num_kv_heads, spec.head_dim, group.tile_tokens
    tiles = group.query.shape[0] // width
    asked = q.index_select(0, group.query).view(tiles, width, kv_heads, spec.group, head_dim)
    rows = q.new_zeros(tiles, kv_heads, width, group.heads, head_dim)
    rows[:, :, :, : spec.group] = asked.permute(0, 2, 1, 3, 4)
    rows = rows.view(tiles, kv_heads, width * group.heads, head_dim)

    out = torch.zeros_like(rows)
    total = rows.new_zeros(rows.shape[:-1])
    top = torch.full_like(total, LOWEST)
    for visit in group.visits:
        part = slice(visit.lo, visit.hi)
        _merge(rows[part], k_rows, v_rows, group, visit, spec, out[part], total[part], top[part])
    out = out.div_(total.unsqueeze(-1)).view(tiles, kv_heads, width, group.heads, head_dim)[:, :, :, : spec.group]
    return out.permute(0, 2, 1, 3, 4).reshape(tiles * width, spec.num_heads, head_dim)


def _merge(
    rows: Tensor,  # [tiles, G, M, D] scaled queries
    k_rows: Tensor,
    v_rows: Tensor,
    group: TileGroup,
    visit: Visit,
    spec: AttentionSpec,
    out: Tensor,  # [tiles, G, M, D] weighted sum of values so far, updated in place
    total: Tensor,  # [tiles, G, M] sum of weights so far, updated in place
    top: Tensor,  # [tiles, G, M] highest score so far, updated in place
) -> None:
    tiles, kv_heads, m, head_dim = rows.shape
    keys = k_rows.index_select(0, visit.pool_rows).view(-1, BLOCK, head_dim).float()
    values = v_rows.index_select(0, visit.pool_rows).view(-1, BLOCK, head_dim).float()
    repeated = rows.unsqueeze(2).expand(tiles, kv_heads, visit.blocks, m, head_dim).reshape(-1, m, head_dim)
    scores = torch.bmm(repeated, keys.transpose(1, 2))  # [tiles * G * blocks, M, BLOCK]
    if spec.logit_cap is not None:
        scores.div_(spec.logit_cap).tanh_().mul_(spec.logit_cap)
    if visit.bias is not None:
        scores.view(tiles, kv_heads, visit.blocks, group.tile_tokens, group.heads, BLOCK).add_(visit.bias)
    by_block = scores.view(tiles, kv_heads, visit.blocks, m, BLOCK)

    new_top = torch.maximum(top, by_block.amax(-1).amax(2))
    weights = by_block.sub_(new_top.unsqueeze(2).unsqueeze(-1)).exp_()
    sums = weights.sum(-1)  # [tiles, G, blocks, M]
    parts = torch.bmm(weights.view(-1, m, BLOCK), values).view(tiles, kv_heads, visit.blocks, m, head_dim)
    sum_here, out_here = sums[:, :, 0], parts[:, :, 0]
    for block in range(1, visit.blocks):
        sum_here = sum_here + sums[:, :, block]
        out_here = out_here + parts[:, :, block]
    shrink = torch.exp(top - new_top)
    total.mul_(shrink).add_(sum_here)
    out.mul_(shrink.unsqueeze(-1)).add_(out_here)
    top.copy_(new_top)


def block_matmul(head_dim: int, device: torch.device) -> MatMul:
    """The two products of one block, with fixed keys and values, as one function of the query rows: for probing."""
    noise = torch.randn(2, 1, BLOCK, head_dim, generator=torch.Generator().manual_seed(1)).to(device)
    keys, values = noise[0].transpose(1, 2), noise[1]

    def both(rows: Tensor) -> Tensor:
        scores = torch.bmm(rows.unsqueeze(0), keys)
        return torch.cat([scores, torch.bmm(scores, values)], dim=-1)[0]

    return both
