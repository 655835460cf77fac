"""Replies and what a list of them adds up to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(slots=True)
class Reply:
    """One answered request. Times are seconds of one monotonic clock."""

    prompt: str
    asked: int
    """New tokens asked for."""
    start: float
    end: float
    stamps: list[float]
    """When each piece of text arrived."""
    text: str
    n_in: int
    n_out: int
    counted: bool = True
    """The server reported token counts; otherwise ``n_out`` is the number of pieces."""

    @property
    def ttft(self) -> float:
        """Seconds to the first text; to the end where there was none."""
        return (self.stamps[0] if self.stamps else self.end) - self.start

    @property
    def gaps(self) -> list[float]:
        """Seconds between pieces of text."""
        return [after - before for before, after in pairwise(self.stamps)]


@dataclass(slots=True)
class Run:
    """A workload's replies. ``seconds`` is the wall time of all of them, ``warm`` the prompts sent before."""

    replies: list[Reply]
    seconds: float
    warm: list[str]


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of the values don't exceed (nearest rank); NaN of nothing."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summary(run: Run) -> dict[str, Any]:
    """Rates, latencies and fairness counts of a run; times in seconds, JSON-ready (None for what isn't there)."""
    replies, wall = run.replies, run.seconds
    gaps = [gap for reply in replies for gap in reply.gaps]
    ttfts = [reply.ttft for reply in replies]
    out, prompt = sum(reply.n_out for reply in replies), sum(reply.n_in for reply in replies)
    return {
        "wall_s": wall,
        "requests": len(replies),
        "req_s": len(replies) / wall,
        "out_tok": out,
        "out_tok_s": out / wall,
        "in_tok": prompt,
        "in_tok_s": prompt / wall,
        "ttft_p50": percentile(ttfts, 0.5),
        "ttft_p99": percentile(ttfts, 0.99),
        "itl_p50": percentile(gaps, 0.5) if gaps else None,
        "itl_p99": percentile(gaps, 0.99) if gaps else None,
        "short": sum(reply.n_out < reply.asked for reply in replies),
        "uncounted": sum(not reply.counted for reply in replies),
    }
