"""The prefix cache that remembers nothing (``--disable-radix-cache``)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sglang.cache.prefix import Inserted, Location, Match, Namespace, Node, SlotArray, TokenArray

_NO_SLOTS: SlotArray = np.empty(0, np.int32)


class NoSharing:
    """Matches nothing and keeps nothing; every slot stays with the request that computed it."""

    def __init__(self, page_size: int = 1) -> None:
        self.page_size = page_size
        self.evictable_size = 0
        self.protected_size = 0

    def match(self, namespace: Namespace, key: TokenArray, limit: int) -> Match:
        return Match(_NO_SLOTS, None)

    def count_hit(self, node: Node) -> None:
        """Nothing is ever reused."""

    def locate(self, namespace: Namespace, key: TokenArray, limit: int) -> Location:
        return Location(0, [])

    def insert(self, namespace: Namespace, key: TokenArray, slots: SlotArray, priority: int = 0) -> Inserted:
        return Inserted(0, 0, None)

    def path_slots(self, node: Node) -> SlotArray:
        return _NO_SLOTS

    def lock(self, node: Node) -> None:
        """Nothing to protect."""

    def unlock(self, node: Node) -> None:
        """Nothing to release."""

    def evict(self, tokens: int) -> list[SlotArray]:
        return []

    def reset(self) -> None:
        """Nothing to forget."""

    def owned_slots(self) -> SlotArray:
        return _NO_SLOTS

    def check(self, locked: Sequence[Node]) -> None:
        """Nothing can be wrong."""
