"""What the machine's own limits allow: the least time a workload's matrix products need.

Counted: reading all weights once a decode step, and one 8-bit multiply-add for each weight and token. Prompt tokens
that another prompt shares are computed once. Attention, norms, sampling and everything around the model are taken
as free, so 100 % can't be reached.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from sglang.formats.gguf import GGUFFile


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Multiply-adds (= weights) and bytes of a model's matrices: in the blocks, a token; in the head, a sample."""

    layer_macs: int
    head_macs: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Work:
    """What a workload can't avoid. ``steps``: passes over the weights to decode, as many rows at once as allowed."""

    prompt_tokens: int
    output_tokens: int
    requests: int
    steps: int


@dataclass(frozen=True, slots=True)
class Limits:
    """Of all cores together: bytes and 8-bit multiply-adds a second."""

    read: float
    int8: float


def model_facts(path: Path) -> ModelFacts:
    """Facts of a GGUF file."""
    tensors = GGUFFile(path).tensors
    layers = [t for name, t in tensors.items() if name.startswith("blk.") and len(t.shape) == 2]
    head = tensors.get("output.weight") or tensors["token_embd.weight"]
    return ModelFacts(
        layer_macs=sum(math.prod(t.shape) for t in layers),
        head_macs=math.prod(head.shape),
        bytes=sum(t.data.nbytes for t in layers) + head.data.nbytes,
    )


def floor_seconds(model: ModelFacts, work: Work, limits: Limits) -> float:
    """Least seconds for ``work``: prompts at the arithmetic limit, decoding at the tighter of both limits."""
    first = work.requests * model.head_macs + work.prompt_tokens * model.layer_macs
    decoded = (work.output_tokens - work.requests) * (model.layer_macs + model.head_macs)
    return first / limits.int8 + max(decoded / limits.int8, work.steps * model.bytes / limits.read)


def distinct_tokens(prompts: Iterable[Sequence[int]], warm: Iterable[Sequence[int]] = ()) -> int:
    """Tokens to compute for ``prompts`` when each prefix is computed once and those of ``warm`` are there already."""

    def nodes(lists: list[list[int]]) -> int:
        lists.sort()
        shared = sum(common_prefix(one, other) for one, other in pairwise(lists))
        return sum(map(len, lists)) - shared

    known = [list(ids) for ids in warm]
    return nodes([list(ids) for ids in prompts] + known) - nodes(known)


def common_prefix(one: Sequence[int], other: Sequence[int]) -> int:
    length = min(len(one), len(other))
    return next((at for at in range(length) if one[at] != other[at]), length)


def limits_of(card: dict[str, Any]) -> Limits | None:
    """The limits on a machine card; None when its probe did not run."""
    probe = card.get("probe")
    if not probe:
        return None
    full = probe[str(card["cores"])]
    return Limits(read=full["read_gb_s"] * 1e9, int8=full["int8_gmac_s"] * 1e9)
