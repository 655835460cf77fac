"""Watches the children of a running system: when one dies, the system ends, and everybody learns why."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait

from sglang.engine.children import Child
from sglang.ipc.messages import ProcessFailed
from sglang.ipc.startup import read_ready

logger = logging.getLogger(__name__)

LAST_WORDS_SECONDS = 0.2
"""How long to wait for the reason a dying child may still have in its pipe."""


class Supervisor:
    """One thread that waits for the first death. Calls ``on_failure(reason)`` there, once, unless stopped before."""

    def __init__(self, children: Sequence[Child], on_failure: Callable[[str], None]) -> None:
        self._children = children
        self._on_failure = on_failure
        self._stop_read, self._stop_write = os.pipe()
        self._stopped = False
        self._thread = threading.Thread(target=self._watch, name="sglang-supervisor", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; deaths are expected from now on. Safe to call twice and from ``on_failure``."""
        if self._stopped:
            return
        self._stopped = True
        os.close(self._stop_write)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _watch(self) -> None:
        try:
            ready = wait([self._stop_read, *(child.process.sentinel for child in self._children)])
            if self._stop_read not in ready and not self._stopped:
                dead = next(child for child in self._children if child.process.sentinel in ready)
                self._on_failure(death_reason(dead))
        finally:
            os.close(self._stop_read)


def death_reason(child: Child) -> str:
    """Why a child died: its own words where it left some, else how it ended."""
    child.process.join(1.0)  # the sentinel may show the end a moment before the exit code does
    while child.ready.poll(LAST_WORDS_SECONDS):
        message = read_ready(child.ready)
        if message is None:
            break
        if isinstance(message, ProcessFailed):
            return f"{child.describe_end()}: {message.reason}"
    return child.describe_end()
