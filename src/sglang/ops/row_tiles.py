"""Matrix products whose rows don't depend on how many rows there are.

BLAS libraries pick a kernel by shape, and kernels differ in summation order: one row goes to a matrix-vector
routine, six rows to another tail than eight. So products are only ever issued with a few row counts ("tiles"), short
inputs are padded and long ones cut. Which counts agree bit for bit is not documented anywhere, it is measured: a
probe runs once per shape, on the library and thread count in use.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

MatMul = Callable[[Tensor], Tensor]
"""``[m, in] -> [m, out]`` with the right-hand side bound."""


def agreeing_tiles(matmul: MatMul, x: Tensor, candidates: Sequence[int]) -> tuple[int, ...]:
    """The candidate row counts under which ``matmul`` gives each row of ``x`` the same bits, ascending.

    ``x`` holds at least ``max(candidates)`` random rows. The largest count whose own rows may swap places is the
    yardstick; a count stays if its rows, at other places than in the yardstick, equal it. A single row always
    qualifies as a yardstick, so the answer is never empty.
    """
    ordered = sorted(set(candidates) | {1})
    while len(ordered) > 1:
        size = ordered[-1]
        rows = x[:size]
        turned = rows.flip(0)
        want = matmul(rows).flip(0)
        if torch.equal(matmul(turned), want):
            smaller = [m for m in ordered[:-1] if torch.equal(matmul(turned[:m].contiguous()), want[:m])]
            return (*smaller, size)
        ordered.pop()
    return (1,)


def tiled(matmul: MatMul, x: Tensor, out_features: int, tiles: Sequence[int]) -> Tensor:
    """``matmul(x)`` computed in pieces whose row counts are all in ``tiles`` (ascending)."""
    total, largest = x.shape[0], tiles[-1]
    if total in tiles:
        return matmul(x)
    out = x.new_empty(total, out_features)
    for start in range(0, total, largest):
        piece = x[start : start + largest]
        rows = piece.shape[0]
        size = tiles[bisect_left(tiles, rows)]
        if size != rows:
            piece = torch.cat([piece, piece.new_zeros(size - rows, piece.shape[1])])
        out[start : start + rows] = matmul(piece)[:rows]
    return out
