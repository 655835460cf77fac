"""Contract of a prefix cache: which KV slots already hold the keys and values of a token prefix.

Ownership: slots handed to :meth:`PrefixCache.insert` and reported as ``covered`` belong to the cache, except those of
the ``already`` cached part, which stay the caller's (the cache keeps the older copy). A node handle stays valid while
it is locked; whatever lies on the path from a locked node to the root is never evicted and never changes its slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

TokenArray = npt.NDArray[np.int64]
SlotArray = npt.NDArray[np.int32]

Namespace = tuple[str | None, str | None, str | None]
"""(extra_key, cache_salt, lora_id): entries of different namespaces never share anything."""

Node = Any
"""Opaque handle of a cache entry; only the cache that made it can read it."""


class Match(NamedTuple):
    """Longest cached prefix of a key."""

    slots: SlotArray  # [matched] KV slot of every matched token
    node: Node  # entry that ends exactly at the last matched token


class Location(NamedTuple):
    """Where a key leaves the tree, found without touching it."""

    length: int
    path: list[int]  # serial numbers of the entries from the root down


class Inserted(NamedTuple):
    """What became of an insert."""

    covered: int  # leading tokens of the key that the cache now holds (a multiple of the page size)
    already: int  # leading tokens that it held before
    node: Node  # entry that ends at ``covered``


class PrefixCache(Protocol):
    """Radix tree or nothing at all, behind one face."""

    page_size: int
    evictable_size: int
    """Tokens held that nobody has locked."""
    protected_size: int
    """Tokens held that lie on a locked path."""

    def match(self, namespace: Namespace, key: TokenArray, limit: int) -> Match:
        """Longest cached prefix of ``key[:limit]``, cut to whole pages. Its entries become the most recently used."""
        ...

    def count_hit(self, node: Node) -> None:
        """The prefix that ends at ``node`` was really reused."""
        ...

    def locate(self, namespace: Namespace, key: TokenArray, limit: int) -> Location:
        """As :meth:`match`, read only: recency stays as it is and no entry is split."""
        ...

    def insert(self, namespace: Namespace, key: TokenArray, slots: SlotArray, priority: int = 0) -> Inserted:
        """Offer the slots of a computed prefix (both arrays of one length)."""
        ...

    def path_slots(self, node: Node) -> SlotArray:
        """Slots of the whole prefix that ends at ``node``."""
        ...

    def lock(self, node: Node) -> None:
        """Protect the path of ``node`` from eviction; locks count."""
        ...

    def unlock(self, node: Node) -> None:
        """Undo one :meth:`lock`."""
        ...

    def evict(self, tokens: int) -> list[SlotArray]:
        """Give up unlocked entries, worst first, until at least ``tokens`` are free or nothing is left to evict."""
        ...

    def reset(self) -> None:
        """Forget everything. The caller makes sure that nothing is locked and takes all slots back."""
        ...

    def owned_slots(self) -> SlotArray:
        """All slots that the cache owns (for invariant checks)."""
        ...

    def check(self, locked: Sequence[Node]) -> None:
        """Raise AssertionError unless the entries are sound and exactly the paths of ``locked`` (one item a lock) are
        protected."""
        ...
