"""What /v1/responses remembers: in memory, bounded, gone when the server ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import orjson

from sglang.api.openai.responses.live import LiveResponse
from sglang.api.openai.wrapped import wrapped_error

MAX_RESPONSES = 1_000
MAX_BYTES = 256 * 1024 * 1024
"""Of all histories together, as JSON; a history counts in every response that has it."""
MAX_BACKGROUND = 256
"""Responses that run without a listener at the same time."""


@dataclass
class StoredResponse:
    """One remembered response."""

    id: str
    owner: str
    history: list[dict[str, Any]]
    """Items that led to the answer; the answer's own items follow when it is finished."""
    inputs: int = 0
    """How many of them led to the answer."""
    events: list[bytes] | None = None
    """The stream of a background response, for those who come back to it."""
    live: LiveResponse | None = None
    """Only while it runs."""
    task: asyncio.Task[None] | None = None
    """What runs it without a listener."""
    size: int = 0
    _final: dict[str, Any] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def running(self) -> bool:
        return self.live is not None

    @property
    def response(self) -> dict[str, Any]:
        """The response object as it is now."""
        return self._final if self.live is None else self.live.response

    def settle(self, response: dict[str, Any]) -> None:
        self._final = response
        self.live = None
        self.history = [*self.history, *response["output"]]
        self.tell([])

    def tell(self, events: list[bytes]) -> None:
        """Keep events and wake those who follow."""
        if self.events is not None:
            self.events += events
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def follow(self, after: int = -1) -> AsyncGenerator[bytes, None]:
        """The events behind number ``after``, those to come included."""
        events, position = self.events or [], after + 1
        while True:
            while position < len(events):
                position += 1
                yield events[position - 1]
            if not self.running:
                return
            await self._changed.wait()


class ResponseStore:
    """Responses by id. The oldest finished ones give way to new ones."""

    def __init__(self, max_responses: int = MAX_RESPONSES, max_bytes: int = MAX_BYTES) -> None:
        self._max_responses = max_responses
        self._max_bytes = max_bytes
        self._entries: dict[str, StoredResponse] = {}
        self._bytes = 0

    def check_free(self, name: str) -> None:
        """Raises ApiError for an id that is taken."""
        if name in self._entries:
            raise wrapped_error(f"request_id: a response {name[:100]!r} exists", 400, "request_id")

    def check_background(self) -> None:
        """Raises ApiError where too many responses run without a listener."""
        running = sum(entry.running and entry.task is not None for entry in self._entries.values())
        if running >= MAX_BACKGROUND:
            raise wrapped_error(f"background: {running} responses run in the background; try again later", 503)

    def add(self, entry: StoredResponse) -> None:
        self.check_free(entry.id)
        self._entries[entry.id] = entry
        self._measure(entry)
        self._make_room()

    def get(self, name: str, owner: str) -> StoredResponse:
        """Raises 400 for what is no id and 404 for an unknown one; those of others are unknown."""
        check_id(name, "response_id")
        entry = self._entries.get(name)
        if entry is None or entry.owner != owner:
            raise wrapped_error(f"Response {name[:100]!r} not found", 404, "response_id")
        return entry

    def items(self, owner: str) -> dict[str, dict[str, Any]]:
        """All items of an owner's responses by id."""
        mine = (entry for entry in self._entries.values() if entry.owner == owner)
        return {item["id"]: item for entry in mine for item in entry.history}

    def settle(self, entry: StoredResponse, response: dict[str, Any] | None) -> None:
        """A response has come to its end; None: nothing came of it."""
        if response is None:
            self.remove(entry)
            return
        entry.settle(response)
        if self._entries.get(entry.id) is entry:
            self._measure(entry)
            self._make_room()

    def remove(self, entry: StoredResponse) -> None:
        if self._entries.get(entry.id) is entry:
            del self._entries[entry.id]
            self._bytes -= entry.size

    def _measure(self, entry: StoredResponse) -> None:
        size = len(orjson.dumps(entry.response)) + len(orjson.dumps(entry.history))
        size += sum(map(len, entry.events or ()))
        self._bytes += size - entry.size
        entry.size = size

    def _make_room(self) -> None:
        finished = (entry for entry in list(self._entries.values()) if not entry.running)
        while len(self._entries) > self._max_responses or self._bytes > self._max_bytes:
            oldest = next(finished, None)
            if oldest is None:
                return  # what runs is bounded elsewhere
            self.remove(oldest)


def check_id(name: str, param: str) -> None:
    if not name.startswith("resp_"):
        raise wrapped_error(f"{param}: must begin with 'resp_', got {name[:40]!r}", 400, param)
