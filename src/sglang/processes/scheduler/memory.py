"""Sole owner of KV slots, the slot table and the prefix cache: nobody else takes or frees a slot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sglang.cache.no_sharing import NoSharing
from sglang.cache.prefix import PrefixCache, SlotArray
from sglang.cache.radix import RadixCache
from sglang.cache.slots import SlotAllocator
from sglang.cache.table import SlotTable
from sglang.processes.scheduler.config import SchedulerConfig
from sglang.processes.scheduler.request import Request

IntArray = npt.NDArray[np.int64]


class KVMemory:
    """Every slot is in exactly one place: free, in the prefix cache, or private to a request that holds a row."""

    def __init__(self, config: SchedulerConfig) -> None:
        page = config.page_size
        self.page_size = page
        self.slots = SlotAllocator(config.num_slots, page)
        width = -(-config.context_length // page) * page
        self._rows = SlotTable(config.max_running_requests, width)
        self.table = self._rows.table
        self.cache: PrefixCache = (
            RadixCache(page, config.eviction_policy) if config.enable_prefix_cache else NoSharing(page)
        )
        self.sharing = config.enable_prefix_cache

    # -------------------------------------------------------------- sizes, in tokens

    @property
    def size(self) -> int:
        return self.slots.size

    @property
    def available(self) -> int:
        """Slots that can be had: free ones and unlocked cache entries."""
        return self.slots.free_slots + self.cache.evictable_size

    @property
    def used(self) -> int:
        """Slots in use by requests (locked cache entries included)."""
        return self.slots.size - self.available

    @property
    def free_rows(self) -> int:
        return self._rows.free_rows

    def pages_for(self, tokens: int) -> int:
        return -(-tokens // self.page_size)

    # -------------------------------------------------------------- a request's life

    def reuse(self, request: Request) -> SlotArray:
        """Lock the longest usable cached prefix for a request without a row; :meth:`open` or :meth:`forgo` follows."""
        limit = request.reuse_limit
        match = self.cache.match(request.namespace, request.tokens(limit), limit)
        self.cache.lock(match.node)
        request.node = match.node
        request.tree_len = len(match.slots)
        return match.slots

    def forgo(self, request: Request) -> None:
        """Undo :meth:`reuse`."""
        self.cache.unlock(request.node)
        request.node = None
        request.tree_len = 0

    def open(self, request: Request, slots: SlotArray) -> None:
        """Give the request a row that starts with the cached prefix."""
        request.row = self._rows.take_row()
        reused = len(slots)
        self.table[request.row, :reused] = slots
        request.kv_len = request.capacity = reused
        self.cache.count_hit(request.node)

    def extend(self, request: Request, end: int) -> bool:
        """Hold slots for the first ``end`` positions. False, and nothing taken, when memory is too short."""
        pages = self.pages_for(end - request.capacity)
        if pages <= 0:
            return True
        fresh = self._take(pages)
        if fresh is None:
            return False
        start = request.capacity
        request.capacity += len(fresh)
        self.table[request.row, start : request.capacity] = fresh
        return True

    def extend_by_one(self, rows: IntArray, lens: IntArray) -> IntArray | None:
        """Slots for the next token (position ``lens``) of every row. None, and nothing taken, when memory is too
        short. The caller keeps the lengths: see :meth:`settle_length`."""
        page = self.page_size
        if page == 1:
            fresh = self._take(len(rows))
            if fresh is None:
                return None
            self.table[rows, lens] = fresh
            return fresh.astype(np.int64)
        full = np.flatnonzero(lens % page == 0)
        if len(full):
            fresh = self._take(len(full))
            if fresh is None:
                return None
            columns = lens[full, None] + np.arange(page)
            self.table[rows[full, None], columns] = fresh.reshape(len(full), page)
        return self.table[rows, lens].astype(np.int64)

    def extend_many(self, rows: IntArray, lens: IntArray, ends: IntArray) -> IntArray | None:
        """Slots for the positions ``lens … ends-1`` of every row, one row after the other. None, and nothing taken,
        when memory is too short."""
        page = self.page_size
        fresh = self._take(self.pages_between(lens, ends))
        if fresh is None:
            return None
        used = 0
        found = []
        for row, start, end in zip(rows.tolist(), lens.tolist(), ends.tolist(), strict=True):
            first = self.pages_for(start) * page
            last = self.pages_for(end) * page
            self.table[row, first:last] = fresh[used : used + last - first]
            used += last - first
            found.append(self.table[row, start:end])
        return np.concatenate(found, dtype=np.int64)

    def pages_between(self, lens: IntArray, ends: IntArray) -> int:
        """Pages that rows of ``lens`` positions need to grow to ``ends``."""
        page = self.page_size
        return int((-(-ends // page) + lens // -page).sum())

    def settle_length(self, request: Request, length: int) -> None:
        """Write down how far :meth:`extend_by_one` has brought a request."""
        request.kv_len = length
        request.capacity = self.pages_for(length) * self.page_size

    def pages_needed(self, lens: IntArray) -> int:
        """Pages that :meth:`extend_by_one` will take."""
        return len(lens) if self.page_size == 1 else int(np.count_nonzero(lens % self.page_size == 0))

    def commit(self, request: Request) -> None:
        """Share what is computed so far; the request goes on and keeps it locked."""
        inserted_len = self._insert(request)
        if inserted_len > request.tree_len:
            request.tree_len = inserted_len

    def close(self, request: Request, share: bool) -> None:
        """Free row and slots. With ``share`` the computed tokens are offered to the cache first."""
        if share:
            request.tree_len = max(request.tree_len, self._insert(request))
        private = self.table[request.row, request.tree_len : request.capacity]
        if len(private):
            self.slots.give_back(private)
        self._rows.give_back(request.row)
        self.cache.unlock(request.node)
        request.node = None
        request.row = -1
        request.kv_len = request.tree_len = request.capacity = 0

    def flush(self) -> None:
        """Forget the cache and take everything back. Only while no request holds a row."""
        self.cache.reset()
        self.slots.reset()
        self._rows.reset()

    # -------------------------------------------------------------- inside

    def _take(self, pages: int) -> SlotArray | None:
        short = pages - self.slots.free_pages
        if short > 0:
            if short * self.page_size > self.cache.evictable_size:
                return None
            for slots in self.cache.evict(short * self.page_size):
                self.slots.give_back(slots)
        return self.slots.take(pages)

    def _insert(self, request: Request) -> int:
        """Offer the computed tokens, move the lock to the entry that now ends there and use the cache's copy of what
        it already had. Returns the length the cache holds."""
        row = self.table[request.row]
        tokens = request.tokens(request.kv_len)
        inserted = self.cache.insert(request.namespace, tokens, row[: request.kv_len], request.priority)
        if inserted.covered <= request.tree_len:
            return request.tree_len
        self.cache.lock(inserted.node)
        self.cache.unlock(request.node)
        request.node = inserted.node
        if inserted.already > request.tree_len:
            twice = slice(request.tree_len, inserted.already)
            self.slots.give_back(row[twice])
            row[twice] = self.cache.path_slots(inserted.node)[twice]
        return inserted.covered

    # -------------------------------------------------------------- invariants

    def check(self, holders: Sequence[Request]) -> None:
        """Raise AssertionError unless every slot has exactly one owner and all sizes add up."""
        parts = [self.slots.free_list(), self.cache.owned_slots()]
        for request in holders:
            assert request.tree_len <= request.kv_len <= request.capacity, f"{request.rid}: lengths out of order"
            parts.append(self.table[request.row, request.tree_len : request.capacity])
            shared = self.cache.path_slots(request.node)
            assert np.array_equal(self.table[request.row, : request.tree_len], shared), f"{request.rid}: stale slots"
        assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(self.size)), "a slot has no or two owners"
        self.cache.check([request.node for request in holders])
        assert len({request.row for request in holders}) == len(holders) == len(self.table) - self.free_rows

    def leak(self) -> str | None:
        """What is missing although no request holds a row; None when all is there."""
        missing = self.size - self.available
        rows = len(self.table) - self.free_rows
        if not missing and not rows:
            return None
        return f"KV memory leak: {missing} of {self.size} slots and {rows} rows are taken although no request runs"
