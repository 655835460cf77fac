"""Cuts a step into pieces of bounded size, so that the buffers of a program stay small and in the cache.

Since a token's result depends on its context alone, the cuts may fall anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sglang.executor.batch import ForwardBatch, IntArray


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens ``[begin, end)`` of a step, with the rows they belong to."""

    begin: int
    end: int
    query_lens: IntArray  # [rows] tokens of the row in this piece
    seq_lens: IntArray  # [rows] context up to the last of them
    table_rows: IntArray  # [rows]


def pieces(batch: ForwardBatch, limit: int) -> Iterator[Piece]:
    """In order; no piece has more than ``limit`` tokens."""
    total = len(batch.input_ids)
    if total <= limit:
        yield Piece(0, total, batch.query_lens, batch.seq_lens, batch.table_rows)
        return
    ends = np.cumsum(batch.query_lens)
    starts = ends - batch.query_lens
    for begin in range(0, total, limit):
        end = min(begin + limit, total)
        rows = slice(int(np.searchsorted(ends, begin, "right")), int(np.searchsorted(starts, end, "left")))
        stop = np.minimum(ends[rows], end)
        yield Piece(
            begin,
            end,
            query_lens=stop - np.maximum(starts[rows], begin),
            seq_lens=batch.seq_lens[rows] - (ends[rows] - stop),
            table_rows=np.ascontiguousarray(batch.table_rows[rows]),
        )
