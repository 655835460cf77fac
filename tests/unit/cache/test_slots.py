"""Pages and rows are handed out once each and come back."""

from __future__ import annotations

import numpy as np
import pytest

from sglang.cache.slots import SlotAllocator
from sglang.cache.table import SlotTable


def test_pages_are_consecutive_slots_and_each_is_given_once() -> None:
    allocator = SlotAllocator(14, page_size=4)
    assert (allocator.size, allocator.free_slots) == (12, 12)  # two slots don't fill a page
    taken = allocator.take(3)
    assert taken is not None
    assert taken.tolist() == list(range(12))
    assert allocator.take(1) is None
    assert allocator.free_slots == 0


def test_nothing_is_taken_when_it_does_not_suffice() -> None:
    allocator = SlotAllocator(3)
    assert allocator.take(4) is None
    assert allocator.free_slots == 3


def test_a_partly_filled_last_page_comes_back_whole() -> None:
    allocator = SlotAllocator(8, page_size=4)
    allocator.take(2)
    allocator.give_back(np.array([4, 5], np.int32))
    assert allocator.free_list().tolist() == [4, 5, 6, 7]


def test_freed_slots_are_given_again() -> None:
    allocator = SlotAllocator(4)
    first = allocator.take(4)
    assert first is not None
    allocator.give_back(first[1:3])
    again = allocator.take(2)
    assert again is not None
    assert sorted(again.tolist()) == sorted(first[1:3].tolist())


def test_what_was_taken_stays_when_the_stack_changes() -> None:
    allocator = SlotAllocator(4)
    first = allocator.take(2)
    assert first is not None
    before = first.tolist()
    allocator.give_back(np.array([before[0]], np.int32))
    assert first.tolist() == before


def test_a_pool_without_a_page_is_refused() -> None:
    with pytest.raises(ValueError, match=r"pool of 3 slots .* pages of 4"):
        SlotAllocator(3, page_size=4)


def test_rows_are_given_once() -> None:
    table = SlotTable(3, 5)
    rows = [table.take_row() for _ in range(3)]
    assert sorted(rows) == [0, 1, 2]
    assert table.free_rows == 0
    table.give_back(1)
    assert table.take_row() == 1
