"""Order is kept, garbage is dropped, nothing blocks that should not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest
import zmq

from sglang.config.ports import PortArgs
from sglang.config.server_args import ServerArgs
from sglang.ipc.async_socket import MOST_AT_ONCE, AsyncPullSocket
from sglang.ipc.messages import AbortReq, Message
from sglang.ipc.sockets import PullSocket, PushSocket

WAIT = 10.0
"""Seconds; only a failing test ever waits that long."""


@pytest.fixture
def address() -> Iterator[str]:
    ports = PortArgs.init_new(ServerArgs())
    yield ports.tokenizer_ipc_name
    ports.cleanup()


def send_raw(address: str, data: bytes) -> None:
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.connect(address)
        socket.send(data)


def rids(messages: list[object]) -> list[str]:
    return [message.rid for message in messages if isinstance(message, AbortReq)]


def test_messages_sent_before_the_reader_binds_arrive_in_order(address: str) -> None:
    push = PushSocket(address)
    for i in range(100):
        push.send(AbortReq(rid=str(i)))
    pull = PullSocket(address)
    received = [pull.recv(WAIT) for _ in range(100)]
    assert rids(received) == [str(i) for i in range(100)]
    pull.close()
    push.close()


def test_recv_with_timeout_returns_none_and_drain_does_not_wait(address: str) -> None:
    pull = PullSocket(address)
    assert pull.recv(0.01) is None
    assert pull.recv(0) is None
    assert pull.drain() == []
    pull.close()


def test_drain_takes_all_that_arrived(address: str) -> None:
    pull, push = PullSocket(address), PushSocket(address)
    for name in "abc":
        push.send(AbortReq(rid=name))
    first = pull.recv(WAIT)
    rest: list[object] = []
    while len(rest) < 2:
        rest += pull.drain()
    assert rids([first, *rest]) == ["a", "b", "c"]
    pull.close()
    push.close()


def test_garbage_is_logged_and_dropped(address: str, caplog: pytest.LogCaptureFixture) -> None:
    pull = PullSocket(address)
    with caplog.at_level(logging.ERROR):
        send_raw(address, b"cos\nsystem\n(S'true'\ntR.")
        push = PushSocket(address)
        push.send(AbortReq(rid="after"))
        received = pull.recv(WAIT)
        assert rids([received]) == ["after"] or rids([pull.recv(WAIT)]) == ["after"]
        if not caplog.records:  # two senders: the garbage may come second
            assert pull.recv(0.5) is None
    assert "dropped a message" in caplog.text
    pull.close()
    push.close()


async def test_the_asynchronous_reader_skips_garbage_too(address: str) -> None:
    pull, push = AsyncPullSocket(address), PushSocket(address)
    push.send_encoded(b"\xc1")
    push.send(AbortReq(rid="before"))
    arrived: asyncio.Queue[Message] = asyncio.Queue()
    pull.listen(arrived.put_nowait)
    first = await asyncio.wait_for(arrived.get(), WAIT)
    for number in range(MOST_AT_ONCE + 10):
        push.send(AbortReq(rid=str(number)))
    others = [await asyncio.wait_for(arrived.get(), WAIT) for _ in range(MOST_AT_ONCE + 10)]
    assert rids([first, *others]) == ["before", *map(str, range(MOST_AT_ONCE + 10))]
    pull.close()
    push.close()


async def test_an_asynchronous_reader_may_be_closed_by_what_it_hands_over(address: str) -> None:
    pull, push = AsyncPullSocket(address), PushSocket(address)
    closed = asyncio.Event()
    heard: list[object] = []

    def hear(message: Message) -> None:
        heard.append(message)
        pull.close()
        closed.set()

    pull.listen(hear)
    push.send(AbortReq(rid="a"))
    push.send(AbortReq(rid="b"))
    await asyncio.wait_for(closed.wait(), WAIT)
    assert rids(heard) == ["a"]
    push.close()


def test_closing_a_sender_without_a_reader_does_not_hang(address: str) -> None:
    push = PushSocket(address)
    push.send(AbortReq(rid="lost"))
    push.close()
