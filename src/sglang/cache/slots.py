"""Hands out KV slots in whole pages: a stack of free page numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sglang.cache.prefix import SlotArray


class SlotAllocator:
    """Free list over ``num_slots // page_size`` pages; page ``p`` holds the slots ``p*page_size … +page_size-1``.

    The position of a token in its sequence and its slot are congruent modulo the page size: whoever takes pages fills
    each with ``page_size`` consecutive positions.
    """

    def __init__(self, num_slots: int, page_size: int = 1) -> None:
        if page_size < 1 or num_slots < page_size:
            raise ValueError(
                f"a pool of {num_slots} slots can't be cut into pages of {page_size}; need at least one page"
            )
        self.page_size = page_size
        self.num_pages = num_slots // page_size
        self._offsets = np.arange(page_size, dtype=np.int32)
        self._free: npt.NDArray[np.int32] = np.empty(self.num_pages, np.int32)
        self._count = 0
        self.reset()

    @property
    def size(self) -> int:
        """Usable slots (a tail that doesn't fill a page is left out)."""
        return self.num_pages * self.page_size

    @property
    def free_slots(self) -> int:
        return self._count * self.page_size

    @property
    def free_pages(self) -> int:
        return self._count

    def reset(self) -> None:
        """Take everything back."""
        self._free = np.arange(self.num_pages - 1, -1, -1, dtype=np.int32)  # the lowest page lies on top
        self._count = self.num_pages

    def take_pages(self, pages: int) -> SlotArray | None:
        """First slots of ``pages`` fresh pages, or None (and nothing taken) when there aren't that many."""
        if pages > self._count:
            return None
        self._count -= pages
        taken = self._free[self._count : self._count + pages][::-1]  # from the top: neighbours stay neighbours
        return taken * np.int32(self.page_size) if self.page_size > 1 else taken.copy()

    def take(self, pages: int) -> SlotArray | None:
        """All slots of ``pages`` fresh pages in position order, or None when there aren't that many."""
        starts = self.take_pages(pages)
        if starts is None or self.page_size == 1:
            return starts
        return (starts[:, None] + self._offsets).ravel()

    def give_back(self, slots: SlotArray) -> None:
        """Free the pages of ``slots``, a run in position order that starts on a page border."""
        pages = slots[:: self.page_size] // self.page_size if self.page_size > 1 else slots
        self._free[self._count : self._count + len(pages)] = pages[::-1]
        self._count += len(pages)

    def free_list(self) -> SlotArray:
        """Every free slot (for invariant checks)."""
        return (self._free[: self._count, None] * np.int32(self.page_size) + self._offsets).ravel().astype(np.int32)
