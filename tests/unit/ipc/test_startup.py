"""The start-up pipe carries records and survives a child that says nothing."""

from __future__ import annotations

from multiprocessing import Pipe

from sglang.ipc.messages import ProcessFailed, ProcessReady
from sglang.ipc.startup import ReadySender, read_ready


def test_words_arrive_in_order_and_the_end_is_none() -> None:
    receiver, sender = Pipe(duplex=False)
    ready = ReadySender(sender)
    ready.send(ProcessReady(role="scheduler", pid=7, info={"max_total_num_tokens": 100}))
    ready.send(ProcessFailed(role="scheduler", reason="later"))
    sender.close()
    assert read_ready(receiver) == ProcessReady(role="scheduler", pid=7, info={"max_total_num_tokens": 100})
    assert read_ready(receiver) == ProcessFailed(role="scheduler", reason="later")
    assert read_ready(receiver) is None


def test_garbage_reads_as_no_word() -> None:
    receiver, sender = Pipe(duplex=False)
    sender.send_bytes(b"\xc1")
    assert read_ready(receiver) is None
