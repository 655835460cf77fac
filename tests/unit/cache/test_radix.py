"""The radix tree against a plain list of sequences, and its rules one by one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from sglang.cache.no_sharing import NoSharing
from sglang.cache.prefix import Namespace
from sglang.cache.radix import RadixCache

NS: Namespace = (None, None, None)


def key(*tokens: int) -> np.ndarray[Any, Any]:
    return np.array(tokens, np.int64)


def slots(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.int32)


def put(cache: RadixCache, tokens: list[int], first_slot: int, namespace: Namespace = NS, priority: int = 0) -> Any:
    return cache.insert(
        namespace, key(*tokens), np.arange(first_slot, first_slot + len(tokens), dtype=np.int32), priority
    )


def length(cache: RadixCache, tokens: list[int], namespace: Namespace = NS) -> int:
    return cache.locate(namespace, key(*tokens), len(tokens)).length


def test_a_match_that_ends_inside_an_entry_splits_it() -> None:
    cache = RadixCache()
    put(cache, [1, 2, 3, 4], 10)
    match = cache.match(NS, key(1, 2, 9), 3)
    assert match.slots.tolist() == [10, 11]
    assert cache.path_slots(match.node).tolist() == [10, 11]
    assert cache.match(NS, key(1, 2, 3, 4), 4).slots.tolist() == [10, 11, 12, 13]
    assert len(list(cache.nodes())) == 2
    cache.check([])


def test_the_limit_cuts_a_match() -> None:
    cache = RadixCache()
    put(cache, [1, 2, 3, 4], 10)
    assert cache.match(NS, key(1, 2, 3, 4), 3).slots.tolist() == [10, 11, 12]
    assert cache.match(NS, key(1, 2, 3, 4), 0).slots.tolist() == []


def test_insert_keeps_the_older_slots_and_says_so() -> None:
    cache = RadixCache()
    put(cache, [1, 2, 3], 10)
    inserted = put(cache, [1, 2, 3, 4, 5], 20)
    assert (inserted.covered, inserted.already) == (5, 3)
    assert cache.path_slots(inserted.node).tolist() == [10, 11, 12, 23, 24]
    assert sorted(cache.owned_slots().tolist()) == [10, 11, 12, 23, 24]
    assert cache.evictable_size == 5


def test_locate_changes_nothing() -> None:
    cache = RadixCache()
    put(cache, [1, 2, 3, 4], 10)
    assert length(cache, [1, 2, 7]) == 2
    assert len(list(cache.nodes())) == 1
    assert length(cache, [1, 2], ("other", None, None)) == 0


@pytest.mark.parametrize("other", [("x", None, None), (None, "x", None), (None, None, "x")])
def test_namespaces_share_nothing(other: Namespace) -> None:
    cache = RadixCache()
    put(cache, [1, 2, 3], 10)
    assert cache.match(other, key(1, 2, 3), 3).slots.tolist() == []
    put(cache, [1, 2, 3], 20, other)
    assert cache.match(other, key(1, 2, 3), 3).slots.tolist() == [20, 21, 22]
    assert cache.match(NS, key(1, 2, 3), 3).slots.tolist() == [10, 11, 12]


def test_pages_are_whole() -> None:
    cache = RadixCache(page_size=4)
    inserted = put(cache, list(range(10)), 0)
    assert inserted.covered == 8
    assert cache.match(NS, np.arange(10), 9).slots.tolist() == list(range(8))
    assert cache.match(NS, np.arange(10), 7).slots.tolist() == [0, 1, 2, 3]
    assert cache.match(NS, key(0, 1, 2, 3, 4, 5, 99, 7), 8).slots.tolist() == [0, 1, 2, 3]
    assert cache.match(NS, key(0, 1, 2, 99), 4).slots.tolist() == []
    cache.check([])


def test_a_key_shorter_than_a_page_is_not_kept() -> None:
    cache = RadixCache(page_size=4)
    inserted = put(cache, [1, 2, 3], 0)
    assert inserted.covered == 0
    cache.lock(inserted.node)
    cache.unlock(inserted.node)
    assert cache.evictable_size == 0


def test_locked_paths_survive_eviction_and_splits() -> None:
    cache = RadixCache()
    node = put(cache, [1, 2, 3, 4], 10).node
    put(cache, [7, 8], 20)
    cache.lock(node)
    cache.match(NS, key(1, 2, 9), 3)  # splits the locked entry
    assert (cache.evictable_size, cache.protected_size) == (2, 4)
    assert [part.tolist() for part in cache.evict(100)] == [[20, 21]]
    assert cache.path_slots(node).tolist() == [10, 11, 12, 13]
    cache.check([node])
    cache.unlock(node)
    assert sum(map(len, cache.evict(100))) == 4
    assert cache.evictable_size == cache.protected_size == 0


def test_locks_count() -> None:
    cache = RadixCache()
    node = put(cache, [1, 2], 10).node
    cache.lock(node)
    cache.lock(node)
    cache.unlock(node)
    assert cache.evict(1) == []
    cache.unlock(node)
    assert len(cache.evict(1)) == 1


def test_lru_evicts_the_longest_unused_leaf_first() -> None:
    cache = RadixCache()
    put(cache, [1, 1], 10)
    put(cache, [2, 2], 20)
    put(cache, [3, 3], 30)
    cache.match(NS, key(1, 1), 2)
    assert [part.tolist() for part in cache.evict(3)] == [[20, 21], [30, 31]]
    assert length(cache, [1, 1]) == 2


def test_children_go_before_their_parent() -> None:
    cache = RadixCache()
    put(cache, [1, 2], 10)
    put(cache, [1, 2, 3], 20)
    put(cache, [1, 2, 4], 30)
    assert [part.tolist() for part in cache.evict(100)] == [[22], [32], [10, 11]]


def test_lfu_keeps_what_was_reused_more_often() -> None:
    cache = RadixCache(eviction_policy="lfu")
    old = put(cache, [1, 1], 10).node
    put(cache, [2, 2], 20)
    cache.count_hit(old)
    put(cache, [3, 3], 30)
    assert [part.tolist() for part in cache.evict(4)] == [[20, 21], [30, 31]]


def test_slru_protects_entries_after_their_second_reuse() -> None:
    cache = RadixCache(eviction_policy="slru")
    twice, once = put(cache, [1, 1], 10).node, put(cache, [2, 2], 20).node
    for node in (twice, twice, once):
        cache.count_hit(node)
    put(cache, [3, 3], 30)
    assert [part.tolist() for part in cache.evict(4)] == [[20, 21], [30, 31]]


def test_priority_evicts_low_priorities_first() -> None:
    cache = RadixCache(eviction_policy="priority")
    put(cache, [1, 1], 10, priority=-5)
    put(cache, [2, 2], 20, priority=3)
    put(cache, [3, 3], 30, priority=0)
    put(cache, [1, 1], 40, priority=7)  # raises the entry
    assert [part.tolist() for part in cache.evict(4)] == [[30, 31], [20, 21]]


def test_unknown_policy_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'mru'.*lru"):
        RadixCache(eviction_policy="mru")


def test_one_off_namespaces_leave_nothing_behind() -> None:
    cache = RadixCache()
    for number in range(50):
        namespace = (None, f"salt {number}", None)
        cache.match(namespace, key(1, 2), 2)
        put(cache, [1, 2], 0, namespace)
        cache.evict(2)
    assert cache._roots == {}
    assert cache._root_names == {}


def test_no_sharing_keeps_nothing() -> None:
    cache = NoSharing(4)
    inserted = cache.insert(NS, np.arange(8), np.arange(8, dtype=np.int32))
    assert (inserted.covered, inserted.already) == (0, 0)
    match = cache.match(NS, np.arange(8), 8)
    assert len(match.slots) == 0
    cache.lock(match.node)
    cache.unlock(match.node)
    assert cache.evict(100) == []


class Model:
    """What the tree must know: all sequences ever inserted, minus what was evicted, page by page."""

    def __init__(self) -> None:
        self.pages: dict[tuple[Namespace, tuple[int, ...]], int] = {}  # tokens up to a page's end -> its first slot

    def match(self, namespace: Namespace, tokens: list[int], page: int) -> list[int]:
        found: list[int] = []
        for end in range(page, len(tokens) + 1, page):
            slot = self.pages.get((namespace, tuple(tokens[:end])))
            if slot is None:
                break
            found += range(slot, slot + page)
        return found


@pytest.mark.parametrize("page", [1, 3])
@pytest.mark.parametrize("policy", ["lru", "lfu", "slru", "priority"])
@pytest.mark.parametrize("seed", range(4))
def test_random_operations_agree_with_the_model(page: int, policy: str, seed: int) -> None:
    rng = random.Random(seed)
    cache, model = RadixCache(page, policy), Model()
    free = list(range(0, 3000, page))
    held: list[Any] = []
    for _ in range(400):
        namespace: Namespace = (rng.choice([None, "a"]), None, None)
        tokens = [rng.randrange(2) for _ in range(rng.randrange(1, 20))]
        kind = rng.random()
        if kind < 0.5:
            pages = [free.pop() for _ in range(len(tokens) // page)]
            mine = [start + i for start in pages for i in range(page)] + [-1] * (len(tokens) % page)
            inserted = cache.insert(namespace, key(*tokens), slots(*mine), rng.randrange(3))
            assert inserted.already == len(model.match(namespace, tokens, page))
            assert inserted.covered == len(pages) * page
            free += pages[: inserted.already // page]
            for start in range(inserted.already, inserted.covered, page):
                model.pages[namespace, tuple(tokens[: start + page])] = mine[start]
        elif kind < 0.8:
            match = cache.match(namespace, key(*tokens), len(tokens))
            assert match.slots.tolist() == model.match(namespace, tokens, page)
            if rng.random() < 0.3:
                cache.lock(match.node)
                held.append(match.node)
        elif kind < 0.9 and held:
            cache.unlock(held.pop(rng.randrange(len(held))))
        else:
            want, before = rng.randrange(1, 30), cache.evictable_size
            gone = [slot for part in cache.evict(want) for slot in part.tolist()]
            assert len(gone) >= min(want, before)
            protected = {slot for node in held for slot in cache.path_slots(node).tolist()}
            assert not protected & set(gone)
            model.pages = {k: slot for k, slot in model.pages.items() if slot not in set(gone)}
            free += gone[::page]
        cache.check(held)
        assert sorted(cache.owned_slots().tolist()[::page]) == sorted(model.pages.values())
