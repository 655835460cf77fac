"""The waiting queue and the orders in which it is served."""

from __future__ import annotations

import bisect
import logging
import random
from collections import defaultdict
from collections.abc import Iterator

from sglang.cache.prefix import Location
from sglang.processes.scheduler.config import SchedulerConfig
from sglang.processes.scheduler.memory import KVMemory
from sglang.processes.scheduler.request import Request

logger = logging.getLogger(__name__)

CACHE_POLICIES = ("lpm", "dfs-weight", "hrrn", "shortest-prefill-first")
"""Orders that look at the prefix cache; without it they are fcfs."""

LONG_QUEUE = 128
"""Above this length the orders that look up every request fall back to fcfs."""

PATIENCE = 256
"""Requests that may overtake a waiting one (priorities aside); then it goes first, so that nobody starves."""


class WaitingQueue:
    """Requests without memory, kept in (priority, arrival) order."""

    def __init__(self, config: SchedulerConfig, memory: KVMemory, rng: random.Random) -> None:
        self._memory = memory
        self._rng = rng
        self._queue: list[Request] = []
        self._by_rid: dict[str, Request] = {}
        self._arrivals = 0
        self._served = 0
        self.policy = _known_policy(config)

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._queue)

    def get(self, rid: str) -> Request | None:
        return self._by_rid.get(rid)

    def add(self, request: Request) -> None:
        """Queue a newcomer."""
        self._arrivals += 1
        request.seq = self._arrivals
        request.turn = self._served + len(self._queue)
        self.put_back(request)

    def put_back(self, request: Request) -> None:
        """Queue a request that ran before; it keeps its place by arrival."""
        bisect.insort(self._queue, request, key=_arrival_key)
        self._by_rid[request.rid] = request

    def remove(self, request: Request) -> None:
        del self._by_rid[request.rid]
        self._queue.remove(request)

    def serve(self, requests: list[Request]) -> None:
        """Take out requests that got memory."""
        if not requests:
            return
        gone = set(requests)
        self._queue = [request for request in self._queue if request not in gone]
        for request in requests:
            del self._by_rid[request.rid]
        self._served += len(requests)

    def worst(self) -> Request:
        """Lowest priority, latest arrival."""
        return self._queue[-1]

    # -------------------------------------------------------------- orders

    def ordered(self, processed_tokens: int) -> list[Request]:
        """The queue in the order it should be served now. ``processed_tokens`` is the hrrn policy's clock."""
        queue = self._queue
        if self.policy == "fcfs" or len(queue) < 2:
            return queue
        if self.policy == "random":
            order = list(queue)
            self._rng.shuffle(order)
        elif self.policy == "lof":
            order = sorted(queue, key=lambda request: -request.max_new_tokens)
        elif len(queue) > LONG_QUEUE:
            return queue
        else:
            order = self._by_cache(processed_tokens)
        order.sort(key=lambda request: (-request.priority, self._served - request.turn <= PATIENCE))
        return order

    def _by_cache(self, processed_tokens: int) -> list[Request]:
        found = {request: self._locate(request) for request in self._queue}
        if self.policy == "dfs-weight":
            return _depth_first(found)
        uncached = {request: request.total_len - place.length for request, place in found.items()}
        if self.policy == "shortest-prefill-first":
            return sorted(found, key=lambda request: uncached[request])
        if self.policy == "hrrn":
            return sorted(found, key=lambda r: -(1 + (processed_tokens - r.processed_before) / max(uncached[r], 1)))
        return sorted(found, key=lambda request: -found[request].length)

    def _locate(self, request: Request) -> Location:
        limit = request.reuse_limit
        return self._memory.cache.locate(request.namespace, request.tokens(limit), limit)


def _arrival_key(request: Request) -> tuple[int, int]:
    return (-request.priority, request.seq)


def _depth_first(found: dict[Request, Location]) -> list[Request]:
    """Depth-first over the prefix tree, the subtree with most waiting requests first: requests that share a prefix
    run one after the other while it is cached."""
    weights: dict[int, int] = defaultdict(int)
    for place in found.values():
        for node in place.path:
            weights[node] += 1
    return sorted(found, key=lambda request: [(-weights[node], node) for node in found[request].path] or [(0, 0)])


def _known_policy(config: SchedulerConfig) -> str:
    policy = config.policy
    if policy == "priority":
        return "fcfs"  # priorities order the queue before any policy does
    if policy in CACHE_POLICIES:
        return policy if config.enable_prefix_cache else "fcfs"
    if policy in ("fcfs", "random", "lof"):
        return policy
    logger.warning("schedule policy %r is not available; requests are served in order of arrival (fcfs)", policy)
    return "fcfs"
