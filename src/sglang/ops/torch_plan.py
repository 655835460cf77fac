"""Cut a step into tiles of query tokens and visits to spans of keys, for :mod:`sglang.ops.torch_attention`.

A tile is up to TILE_TOKENS consecutive new tokens of one row; a row with a single new token is a tile of one. Keys are
read in blocks of BLOCK positions, SPAN blocks of them together. Borders lie at fixed absolute positions, so a token
meets the same sums in the same order whichever tile it sits in. Tiles are sorted by their last position: the tiles
that reach into a span lie next to each other, and a visit is a slice instead of a gather.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sglang.ops.interface import AttentionSpec, BatchRows

TILE_TOKENS = 32
BLOCK = 64
SPAN = 16
VISIT_FLOATS = 1 << 21
"""Most floats that one visit may gather as keys or hold as scores: bounds memory whatever the batch and context."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Visit:
    """Tiles ``lo:hi`` of a group meet ``blocks`` neighbouring blocks of their keys, all inside one span."""

    lo: int
    hi: int
    blocks: int
    pool_rows: Tensor  # [tiles * G * blocks * BLOCK] rows of a pool seen as [slots * G, D]
    bias: Tensor | None  # [tiles, 1, blocks, tile tokens, 1, BLOCK] 0 or -inf; None = everything is visible


@dataclass(frozen=True, slots=True)
class TileGroup:
    """All tiles of one width. Visits of a tile come in ascending order of position."""

    tile_tokens: int
    heads: int
    """Rows per token and key/value head: the query heads that share it, and padding."""
    query: Tensor  # [tiles * tile_tokens] token of each place; spare places repeat the tile's last token
    visits: tuple[Visit, ...]


@dataclass(frozen=True, slots=True)
class TorchAttentionPlan:
    groups: tuple[TileGroup, ...]
    places: Tensor  # [T] where each token's result lies in the groups' places, laid end to end


@dataclass(frozen=True, slots=True)
class _Tiles:
    """Tiles in order of descending last position."""

    row: Ints  # batch row
    token: Ints  # first query token
    count: Ints  # query tokens
    first: Ints  # position of the first query token
    last: Ints  # position of the last one
    low_block: Ints  # blocks low_block … high_block hold all visible keys
    high_block: Ints


def plan_attention(rows: BatchRows, spec: AttentionSpec, decode_rows: int, device: torch.device) -> TorchAttentionPlan:
    """``decode_rows``: rows per key/value head that a one-token tile is padded to."""
    single = rows.query_lens == 1
    groups: list[TileGroup] = []
    total = int(rows.query_lens.sum())
    places = np.empty(total, dtype=np.int64)
    base = 0
    for chosen, width, heads in ((single, 1, decode_rows), (~single, TILE_TOKENS, spec.group)):
        if not chosen.any():
            continue
        tiles = _cut(rows, chosen, width, spec.window)
        step = np.arange(width)
        query = tiles.token[:, None] + np.minimum(step, tiles.count[:, None] - 1)
        real = step < tiles.count[:, None]
        places[query[real]] = base + np.flatnonzero(real)
        base += query.size
        visits = tuple(_visits(rows, spec, tiles, width, heads, device))
        groups.append(TileGroup(width, heads, _upload(query.ravel(), device), visits))
    return TorchAttentionPlan(tuple(groups), _upload(places, device))


def _cut(rows: BatchRows, chosen: npt.NDArray[np.bool_], width: int, window: int | None) -> _Tiles:
    row_start = np.cumsum(rows.query_lens) - rows.query_lens
    picked = np.flatnonzero(chosen)
    per_row = -(-rows.query_lens[picked] // width)
    row = np.repeat(picked, per_row)
    offset = (np.arange(row.size) - np.repeat(np.cumsum(per_row) - per_row, per_row)) * width
    count = np.minimum(rows.query_lens[row] - offset, width)
    first = rows.seq_lens[row] - rows.query_lens[row] + offset
    last = first + count - 1
    order = np.argsort(-last, kind="stable")
    row, offset, count, first, last = row[order], offset[order], count[order], first[order], last[order]
    low = np.zeros_like(first) if window is None else np.maximum(first - window + 1, 0)
    return _Tiles(row, row_start[row] + offset, count, first, last, low // BLOCK, last // BLOCK)


def _visits(
    rows: BatchRows, spec: AttentionSpec, tiles: _Tiles, width: int, heads: int, device: torch.device
) -> Iterator[Visit]:
    for span in range(int(tiles.low_block.min()) // SPAN, int(tiles.high_block.max()) // SPAN + 1):
        active = np.flatnonzero((tiles.low_block // SPAN <= span) & (tiles.high_block // SPAN >= span))
        if not active.size:
            continue
        # Per tile and key/value head a block holds BLOCK keys of D floats, and BLOCK scores for each row.
        block_floats = spec.num_kv_heads * BLOCK * max(spec.head_dim, width * heads)
        lo, end = int(active[0]), int(active[-1]) + 1
        while lo < end:
            reach = min(int(tiles.high_block[lo]) - span * SPAN + 1, SPAN)  # the first tile reaches furthest
            hi = min(end, lo + max(1, VISIT_FLOATS // (block_floats * reach)))
            low = max(int(tiles.low_block[lo:hi].min()), span * SPAN)
            high = min(int(tiles.high_block[lo:hi].max()), span * SPAN + SPAN - 1)
            if low <= high:
                yield _visit(rows, spec, tiles, slice(lo, hi), (low, high + 1), width, device)
            lo = hi


def _visit(
    rows: BatchRows,
    spec: AttentionSpec,
    tiles: _Tiles,
    part: slice,
    blocks: tuple[int, int],
    width: int,
    device: torch.device,
) -> Visit:
    keys = np.arange(blocks[0] * BLOCK, blocks[1] * BLOCK)
    row, first, last = tiles.row[part], tiles.first[part], tiles.last[part]
    table = rows.slot_table[rows.table_rows[row]][:, np.minimum(keys, rows.slot_table.shape[1] - 1)]
    slots = np.where(keys < rows.seq_lens[row][:, None], table, rows.pad_slot).astype(np.int64)
    pool_rows = slots[:, None, :] * spec.num_kv_heads + np.arange(spec.num_kv_heads)[None, :, None]
    number = blocks[1] - blocks[0]
    bias = None
    if keys[-1] > first.min() or (spec.window is not None and keys[0] <= last.max() - spec.window):
        position = np.minimum(first[:, None] + np.arange(width), last[:, None])[:, :, None]
        hidden = keys > position
        if spec.window is not None:
            hidden |= keys <= position - spec.window
        values = np.where(hidden, np.float32(-np.inf), np.float32(0))
        values = values.reshape(row.size, width, number, BLOCK).transpose(0, 2, 1, 3)
        bias = _upload(np.ascontiguousarray(values), device)[:, None, :, :, None, :]
    return Visit(part.start, part.stop, number, _upload(pool_rows.ravel(), device), bias)


def _upload(array: npt.NDArray[np.generic], device: torch.device) -> Tensor:
    return torch.from_numpy(array).to(device)
