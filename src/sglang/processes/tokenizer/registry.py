"""All requests that have not finished, by request id."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from sglang.ipc.errors import InvalidRequest
from sglang.processes.tokenizer.streams import Chunk, RequestGroup, RequestStream


@dataclass(slots=True)
class Live:
    """One unfinished stream."""

    group: RequestGroup
    stream: RequestStream
    sent: bool = False
    """False while the request is held back by a pause."""
    parents: tuple[str, ...] = ()


class Registry:
    """Knows every unfinished stream under its own rid and under the caller's rids that stand for several."""

    def __init__(self) -> None:
        self._live: dict[str, Live] = {}
        self._families: dict[str, set[str]] = {}
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._live)

    def get(self, rid: str) -> Live | None:
        return self._live.get(rid)

    def all(self) -> list[Live]:
        return list(self._live.values())

    def matching(self, rid: str) -> list[Live]:
        """The stream with exactly this rid, or all streams of the batch or of the samples it stands for."""
        rids = [rid] if rid in self._live else sorted(self._families.get(rid, ()))
        return [self._live[child] for child in rids]

    def add(self, group: RequestGroup, parents: list[tuple[str, ...]]) -> None:
        """Take in a group; ``parents[i]`` are the other names of its stream i. All or nothing."""
        for stream, names in zip(group.streams, parents, strict=True):
            for rid in (stream.rid, *names):
                if rid in self._live or rid in self._families:
                    raise InvalidRequest(f"rid: {rid!r} belongs to a request that is still running", "rid")
        for stream, names in zip(group.streams, parents, strict=True):
            self._live[stream.rid] = Live(group, stream, parents=names)
            for name in names:
                self._families.setdefault(name, set()).add(stream.rid)

    def mark_sent(self, live: Live) -> None:
        live.sent = True
        self._in_flight += 1
        self._idle.clear()

    def deliver(self, live: Live, chunk: Chunk) -> None:
        """Hand news to the caller; forget the stream when it has finished."""
        live.group.deliver(live.stream, chunk)
        if live.stream.is_finished:
            self._remove(live)

    def _remove(self, live: Live) -> None:
        rid = live.stream.rid
        if self._live.pop(rid, None) is None:
            return
        for name in live.parents:
            family = self._families[name]
            family.discard(rid)
            if not family:
                del self._families[name]
        if live.sent:
            self._in_flight -= 1
            if self._in_flight == 0:
                self._idle.set()

    def of_group(self, group: RequestGroup) -> Iterator[Live]:
        for stream in group.streams:
            live = self._live.get(stream.rid)
            if live is not None and live.group is group:
                yield live

    async def until_idle(self) -> None:
        """Until everything that was sent has finished (what a pause holds back does not count)."""
        await self._idle.wait()
