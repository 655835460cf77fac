"""Processes: dying together, killing a tree, names in the process list."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait

import psutil


def die_with_parent(before_exit: Callable[[], None] | None = None) -> None:
    """End this process as soon as its parent is gone, however the parent ended.

    ``before_exit`` runs first (remove shared files); it must be safe in any state of the program.
    A thread watches the parent, because the kernel's own parent-death signal (prctl) follows the *thread* that
    started us, and an Engine may be started from a thread that ends early.
    """
    parent = multiprocessing.parent_process()
    parent_pid = os.getppid()

    def watch() -> None:
        if parent is not None:
            wait([parent.sentinel])  # end of file on a pipe that only the parent holds
        else:
            while os.getppid() == parent_pid:
                time.sleep(0.5)
        try:
            if before_exit is not None:
                before_exit()
        finally:
            os._exit(1)

    threading.Thread(target=watch, name="die-with-parent", daemon=True).start()


def kill_process_tree(pid: int, include_parent: bool = True, timeout: float = 5.0) -> None:
    """Kill all descendants of ``pid``, and ``pid`` itself where asked; returns when they are gone (or ``timeout``).

    The descendants go first. Unknown pids are ignored.
    """
    try:
        root = psutil.Process(pid)
        victims = root.children(recursive=True)
    except psutil.NoSuchProcess:
        return
    if include_parent and pid != os.getpid():
        victims.append(root)
    for victim in victims:
        try:
            victim.kill()
        except psutil.NoSuchProcess:
            pass
    deadline = time.monotonic() + timeout
    while any(map(_is_alive, victims)) and time.monotonic() < deadline:
        time.sleep(0.01)
    if include_parent and pid == os.getpid():
        root.kill()


def _is_alive(process: psutil.Process) -> bool:
    # Not Process.wait: that would take the exit status from whoever started a child of ours.
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def keep_what_is_loaded() -> None:
    """Leave all objects that exist now out of garbage collections: a look through everything a start has loaded takes
    milliseconds, in the middle of a step."""
    gc.collect()
    gc.freeze()


def set_process_title(title: str) -> None:
    """Show ``title`` in process lists, where the optional package setproctitle is installed."""
    try:
        from setproctitle import setproctitle  # optional package
    except ImportError:
        return
    setproctitle(title)
