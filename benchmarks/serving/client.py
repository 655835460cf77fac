"""A load generator that costs little: on a small machine it competes with the server it measures.

Bytes are only stamped and kept while a request runs; chunks, events and JSON are taken apart afterwards.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from benchmarks.serving.stats import Reply

DONE = b"[DONE]"


class ServerSaidNo(RuntimeError):
    """The server answered with something else than 200, or cut its answer off."""


class _Recorder(asyncio.Protocol):
    """Keeps each received piece with its time until the server closes the connection."""

    def __init__(self) -> None:
        self.pieces: list[tuple[float, bytes]] = []
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.pieces.append((time.perf_counter(), data))

    def connection_lost(self, exc: Exception | None) -> None:
        if self.closed.done():
            return
        if exc is None:
            self.closed.set_result(None)
        else:
            self.closed.set_exception(exc)


class Client:
    """Sends completions to an OpenAI-compatible server; one connection a request."""

    def __init__(self, url: str, model: str, timeout: float = 600) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        self.model, self.timeout = model, timeout

    async def send(self, prompt: str, tokens: int) -> Reply:
        """Stream one greedy completion of exactly ``tokens`` tokens; raises :class:`ServerSaidNo`."""
        body = {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        start = time.perf_counter()
        pieces = await self._exchange("POST", "/v1/completions", json.dumps(body).encode())
        return read_reply(prompt, tokens, start, pieces)

    async def get(self, path: str) -> Any:
        """The JSON answer to a GET."""
        pieces = await self._exchange("GET", path, b"")
        status, chunked, frames = _split(pieces)
        data = b"".join(part for _, part in _unchunk(frames) if part) if chunked else b"".join(p for _, p in frames)
        if status != 200:
            raise ServerSaidNo(f"GET {path} answered {status}: {data[:300]!r}")
        return json.loads(data) if data else None

    async def _exchange(self, method: str, path: str, body: bytes) -> list[tuple[float, bytes]]:
        transport, recorder = await asyncio.get_running_loop().create_connection(_Recorder, self.host, self.port)
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nConnection: close\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        try:
            transport.write(head.encode() + body)
            await asyncio.wait_for(recorder.closed, self.timeout)
        finally:
            transport.close()
        return recorder.pieces


def read_reply(prompt: str, asked: int, start: float, pieces: list[tuple[float, bytes]]) -> Reply:
    """The reply that these stamped bytes of an HTTP answer are. A piece of text has the time of its last byte."""
    status, chunked, frames = _split(pieces)
    data = list(_unchunk(frames)) if chunked else frames
    if status != 200:
        raise ServerSaidNo(f"the server answered {status}: {b''.join(part for _, part in data)[:300]!r}")
    stamps: list[float] = []
    text: list[str] = []
    usage: dict[str, int] | None = None
    finished = False
    for when, event in _events(data):
        if event == DONE:
            finished = True
            break
        message = json.loads(event)
        if "error" in message:
            raise ServerSaidNo(f"the stream broke off: {event[:300]!r}")
        usage = message.get("usage") or usage
        for choice in message.get("choices") or []:
            if choice.get("text"):
                stamps.append(when)
                text.append(choice["text"])
    if not finished:
        raise ServerSaidNo(f"the stream ended without [DONE] after {len(stamps)} pieces of text")
    return Reply(
        prompt=prompt,
        asked=asked,
        start=start,
        end=pieces[-1][0],
        stamps=stamps,
        text="".join(text),
        n_in=(usage or {}).get("prompt_tokens", 0),
        n_out=(usage or {}).get("completion_tokens") or len(stamps),
        counted=usage is not None,
    )


Stamped = list[tuple[float, bytes]]


def _split(pieces: Stamped) -> tuple[int, bool, Stamped]:
    """Status, whether the body is chunked, and the stamped pieces of the body."""
    head, rest = b"", list(pieces)
    while rest and b"\r\n\r\n" not in head:
        when, piece = rest.pop(0)
        head += piece
    top, separator, body = head.partition(b"\r\n\r\n")
    if not separator:
        raise ServerSaidNo(f"the server closed the connection after {len(head)} bytes")
    if body:
        rest.insert(0, (when, body))
    lines = top.split(b"\r\n")
    headers = {name.strip().lower(): value.strip().lower() for name, _, value in (x.partition(b":") for x in lines[1:])}
    return int(lines[0].split()[1]), headers.get(b"transfer-encoding") == b"chunked", rest


def _unchunk(pieces: Stamped) -> Iterator[tuple[float, bytes]]:
    """The contents of chunked pieces, each with the time at which it was complete."""
    buffer = b""
    for when, piece in pieces:
        buffer += piece
        while True:
            size, separator, rest = buffer.partition(b"\r\n")
            if not separator:
                break
            length = int(size.split(b";")[0], 16)
            if length == 0:
                return
            if len(rest) < length + 2:
                break
            yield when, rest[:length]
            buffer = rest[length + 2 :]


def _events(pieces: Stamped) -> Iterator[tuple[float, bytes]]:
    """The data of server-sent events, each with the time of its last byte."""
    buffer = b""
    for when, piece in pieces:
        buffer += piece
        *complete, buffer = buffer.split(b"\n\n")
        for event in complete:
            for line in event.splitlines():
                if line.startswith(b"data:"):
                    yield when, line[5:].strip()
