"""Eviction orders: what a radix node is worth. The leaf with the smallest value goes first.

Every value may only grow while a node lives (uses and times go up, a priority is only raised): the eviction heap
relies on it when it re-reads values lazily.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

EvictionKey = tuple[int, ...]


class Ranked(Protocol):
    """What an order may look at."""

    last_use: int
    hits: int
    priority: int


def _lru(node: Ranked) -> EvictionKey:
    return (node.last_use,)


def _lfu(node: Ranked) -> EvictionKey:
    return (node.hits, node.last_use)


def _slru(node: Ranked) -> EvictionKey:
    """Segmented LRU: entries hit at least twice form a protected segment."""
    return (int(node.hits >= 2), node.last_use)


def _priority(node: Ranked) -> EvictionKey:
    return (node.priority, node.last_use)


EVICTION_ORDERS: dict[str, Callable[[Ranked], EvictionKey]] = {
    "lru": _lru,
    "lfu": _lfu,
    "slru": _slru,
    "priority": _priority,
    "tlru": _lru,  # accepted for compatibility; plain LRU here
}
