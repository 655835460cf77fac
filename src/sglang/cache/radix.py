"""Radix tree over token prefixes (RadixAttention, Zheng et al. 2023, "SGLang: Efficient Execution of Structured
Language Model Programs").

Every edge holds a run of tokens and the KV slots they live in. Requests that share a prefix share its nodes; nodes in
use are locked by reference counts up to the root; unlocked leaves are evicted through a heap when memory is short.
"""

from __future__ import annotations

import heapq
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from sglang.cache.evict import EVICTION_ORDERS, EvictionKey
from sglang.cache.prefix import Inserted, Location, Match, Namespace, SlotArray, TokenArray

_NO_SLOTS: SlotArray = np.empty(0, np.int32)


class RadixNode:
    """An edge and the node at its end. ``key`` and ``slots`` have one length, a multiple of the page size."""

    __slots__ = ("children", "hits", "in_heap", "key", "last_use", "locks", "parent", "priority", "serial", "slots")

    def __init__(self, key: TokenArray, slots: SlotArray, parent: RadixNode | None, serial: int) -> None:
        self.key = key
        self.slots = slots
        self.parent = parent
        self.serial = serial
        self.children: dict[int | bytes, RadixNode] = {}
        self.locks = 0
        self.last_use = 0
        self.hits = 0
        self.priority = -sys.maxsize  # raised by whoever inserts through this node
        self.in_heap = False


class RadixCache:
    """:class:`sglang.cache.prefix.PrefixCache` that shares prefixes inside a namespace."""

    def __init__(self, page_size: int = 1, eviction_policy: str = "lru") -> None:
        if eviction_policy not in EVICTION_ORDERS:
            raise ValueError(f"unknown eviction policy {eviction_policy!r}; choose from {', '.join(EVICTION_ORDERS)}")
        self.page_size = page_size
        self._worth = EVICTION_ORDERS[eviction_policy]
        self.reset()

    def reset(self) -> None:
        self.evictable_size = 0
        self.protected_size = 0
        self._roots: dict[Namespace, RadixNode] = {}
        self._root_names: dict[int, Namespace] = {}  # serial of a root -> its namespace
        self._heap: list[tuple[EvictionKey, int, RadixNode]] = []
        self._clock = 0
        self._serial = 0
        self._nowhere = RadixNode(_NO_KEY, _NO_SLOTS, None, 0)  # what a key of an unknown namespace matches

    # -------------------------------------------------------------- reading

    def match(self, namespace: Namespace, key: TokenArray, limit: int) -> Match:
        root = self._roots.get(namespace)
        if root is None:
            return Match(_NO_SLOTS, self._nowhere)
        node, done = self._descend(root, self._whole_pages(key, limit))
        return Match(self.path_slots(node) if done else _NO_SLOTS, node)

    def count_hit(self, node: RadixNode) -> None:
        while node.parent is not None:
            node.hits += 1
            node = node.parent

    def locate(self, namespace: Namespace, key: TokenArray, limit: int) -> Location:
        key = self._whole_pages(key, limit)
        node = self._roots.get(namespace)
        path: list[int] = []
        done = 0
        while node is not None and done < len(key):
            child = node.children.get(self._branch(key, done))
            if child is None:
                break
            path.append(child.serial)
            same = self._common(child.key, key, done)
            done += same
            if same < len(child.key):
                break
            node = child
        return Location(done, path)

    def path_slots(self, node: RadixNode) -> SlotArray:
        parts: list[SlotArray] = []
        walk: RadixNode | None = node
        while walk is not None:
            parts.append(walk.slots)
            walk = walk.parent
        return parts[0] if len(parts) == 1 else np.concatenate(parts[::-1])

    # -------------------------------------------------------------- writing

    def insert(self, namespace: Namespace, key: TokenArray, slots: SlotArray, priority: int = 0) -> Inserted:
        key = self._whole_pages(key, len(key))
        if len(key) == 0:
            return Inserted(0, 0, self._nowhere)
        root = self._roots.get(namespace) or self._add_root(namespace)
        node, already = self._descend(root, key)
        if already < len(key):
            # copies: the caller's arrays are views of buffers that live on
            node = self._attach(node, key[already:].copy(), slots[already : len(key)].copy())
        walk: RadixNode | None = node
        while walk is not None and walk.priority < priority:
            walk.priority = priority
            walk = walk.parent
        return Inserted(len(key), already, node)

    def lock(self, node: RadixNode) -> None:
        while node.parent is not None:
            if node.locks == 0:
                self.evictable_size -= len(node.key)
                self.protected_size += len(node.key)
            node.locks += 1
            node = node.parent

    def unlock(self, node: RadixNode) -> None:
        while node.parent is not None:
            node.locks -= 1
            if node.locks == 0:
                self.evictable_size += len(node.key)
                self.protected_size -= len(node.key)
                self._offer(node)
            node = node.parent

    def evict(self, tokens: int) -> list[SlotArray]:
        freed: list[SlotArray] = []
        while tokens > 0 and self._heap:
            key, _, node = heapq.heappop(self._heap)
            node.in_heap = False
            if node.locks or node.children:
                continue  # offered again when it becomes an unlocked leaf
            if self._worth(node) > key:
                self._offer(node)  # used since it was offered
                continue
            freed.append(node.slots)
            tokens -= len(node.slots)
            self._remove(node)
        return freed

    def owned_slots(self) -> SlotArray:
        parts = [node.slots for node in self.nodes()]
        return np.concatenate(parts) if parts else _NO_SLOTS

    def nodes(self) -> Iterator[RadixNode]:
        """Every node that holds tokens, parents first."""
        stack = list(self._roots.values())
        while stack:
            node = stack.pop()
            if node.parent is not None:
                yield node
            stack.extend(node.children.values())

    def check(self, locked: Sequence[RadixNode]) -> None:
        expected: Counter[RadixNode] = Counter()
        for node in locked:
            walk: RadixNode | None = node
            while walk is not None and walk.parent is not None:
                expected[walk] += 1
                walk = walk.parent
        evictable = protected = 0
        for node in self.nodes():
            parent = node.parent
            assert parent is not None
            assert len(node.key) == len(node.slots) > 0, "an entry without tokens, or with too few slots"
            assert len(node.key) % self.page_size == 0, "an entry ends inside a page"
            assert parent.children[self._branch(node.key, 0)] is node, "an entry hangs under a wrong name"
            assert node.locks == expected.pop(node, 0), "locks and holders differ"
            assert node.in_heap or node.locks or node.children, "an unlocked leaf can't be evicted"
            if node.locks:
                protected += len(node.key)
            else:
                evictable += len(node.key)
        assert not expected, "somebody holds an entry that is gone"
        assert (evictable, protected) == (self.evictable_size, self.protected_size), "sizes don't add up"

    # -------------------------------------------------------------- inside

    def _whole_pages(self, key: TokenArray, limit: int) -> TokenArray:
        limit = min(limit, len(key))
        return key[: max(0, limit - limit % self.page_size)]

    def _branch(self, key: TokenArray, at: int) -> int | bytes:
        """Name of the child that continues with the page at ``at``: children differ in their first page."""
        return int(key[at]) if self.page_size == 1 else key[at : at + self.page_size].tobytes()

    def _common(self, edge: TokenArray, key: TokenArray, at: int) -> int:
        """Equal leading tokens of ``edge`` and ``key[at:]`` in whole pages."""
        size = min(len(edge), len(key) - at)
        differs = edge[:size] != key[at : at + size]
        first = int(differs.argmax())
        if not differs[first]:
            return size
        return first - first % self.page_size

    def _add_root(self, namespace: Namespace) -> RadixNode:
        root = self._roots[namespace] = self._new_node(_NO_KEY, _NO_SLOTS, None)
        self._root_names[root.serial] = namespace
        return root

    def _descend(self, root: RadixNode, key: TokenArray) -> tuple[RadixNode, int]:
        """Follow ``key`` as far as the tree goes, split where it leaves an edge, and mark the path as used."""
        self._clock += 1
        node = root
        done = 0
        while done < len(key):
            child = node.children.get(self._branch(key, done))
            if child is None:
                break
            same = self._common(child.key, key, done)
            if same < len(child.key):
                child = self._split(child, same)
            child.last_use = self._clock
            node = child
            done += same
        return node, done

    def _new_node(self, key: TokenArray, slots: SlotArray, parent: RadixNode | None) -> RadixNode:
        self._serial += 1
        return RadixNode(key, slots, parent, self._serial)

    def _attach(self, parent: RadixNode, key: TokenArray, slots: SlotArray) -> RadixNode:
        node = self._new_node(key, slots, parent)
        node.last_use = self._clock
        parent.children[self._branch(key, 0)] = node
        self.evictable_size += len(key)
        self._offer(node)
        return node

    def _split(self, node: RadixNode, at: int) -> RadixNode:
        """Cut an edge; ``node`` keeps the lower part, so handles and locks on it stay true. Returns the upper part."""
        parent = node.parent
        assert parent is not None
        upper = self._new_node(node.key[:at], node.slots[:at], parent)
        upper.locks, upper.hits, upper.priority, upper.last_use = node.locks, node.hits, node.priority, node.last_use
        parent.children[self._branch(upper.key, 0)] = upper
        node.key, node.slots, node.parent = node.key[at:], node.slots[at:], upper
        upper.children[self._branch(node.key, 0)] = node
        return upper

    def _offer(self, node: RadixNode) -> None:
        """Put an unlocked leaf into the heap, once."""
        if not node.in_heap and not node.children and node.locks == 0:
            node.in_heap = True
            heapq.heappush(self._heap, (self._worth(node), node.serial, node))

    def _remove(self, node: RadixNode) -> None:
        parent = node.parent
        assert parent is not None
        del parent.children[self._branch(node.key, 0)]
        self.evictable_size -= len(node.key)
        if parent.parent is not None:
            self._offer(parent)
        elif not parent.children:
            del self._roots[self._root_names.pop(parent.serial)]  # or one-off salts would pile up


_NO_KEY: TokenArray = np.empty(0, np.int64)
