"""Child processes: how they start, and what they do before their own code runs.

A child's entry point is named by string (``package.module:function``) and imported in the child only, so that
the parent never loads what only a child needs.
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType

from sglang.config.ports import PortArgs
from sglang.config.server_args import ServerArgs
from sglang.formats.errors import FormatError
from sglang.ipc.messages import ProcessFailed
from sglang.ipc.startup import ReadySender
from sglang.loader.errors import LoadError
from sglang.system.process import die_with_parent

Entry = str | Callable[[ServerArgs, PortArgs, ReadySender], None]

SCHEDULER_ENTRY = "sglang.processes.scheduler.process:run_scheduler_process"
DETOKENIZER_ENTRY = "sglang.processes.detokenizer.process:run_detokenizer_process"

PARENT_DECIDES = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that reach the whole process group (Ctrl-C, a closed terminal, a service manager). Children block them:
the parent may want to finish requests first, and if it dies, the children clean up after it."""

END_SIGNAL = signal.SIGUSR1
"""The parent's request to end: nobody else sends it, so it need not be blocked."""

GUARD_HELP = (
    "the main script starts the engine while it is being imported. Child processes import the main script too, "
    "so they would start engines without end. Put the code that creates the Engine under\n\n"
    '    if __name__ == "__main__":\n'
)


@dataclass(frozen=True, slots=True)
class Child:
    """A started process with the parent's end of its start-up pipe."""

    role: str
    process: BaseProcess
    ready: Connection

    def describe_end(self) -> str:
        code = self.process.exitcode
        if code is not None and code < 0:
            return f"the {self.role} process was ended by {signal.Signals(-code).name}"
        return f"the {self.role} process ended with exit code {code}"


OPENMP_SPINS = "20000"
"""Turns an OpenMP thread spins at a barrier before it sleeps (about 50 µs). libgomp's default spins on without end
while no more threads than cores are asked for; as soon as anything else wants a core, a step then takes 15 times as
long: each barrier waits for a thread that the spinning one keeps off the core."""


def refuse_inside_bootstrap() -> None:
    """Raise where a child process, importing an unguarded main script, is about to start an engine of its own."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(GUARD_HELP)


def main_script_is_unguarded() -> bool:
    """Whether the main script is a file that children import and that never looks at ``__name__``."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if path is None or not Path(path).is_file():
        return False
    return "__name__" not in Path(path).read_text(encoding="utf-8", errors="replace")


def start_child(role: str, entry: Entry, server_args: ServerArgs, port_args: PortArgs) -> Child:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(
        target=_run,
        args=(role, entry, server_args, port_args, ReadySender(sender)),
        name=f"sglang-{role}",
        daemon=True,  # a last resort: multiprocessing ends daemons at exit
    )
    resource_tracker.ensure_running()  # starting it later would undo the blocking
    with _signals_blocked():
        process.start()
    sender.close()  # so that the child's death shows as end of file
    return Child(role, process, receiver)


def _run(role: str, entry: Entry, server_args: ServerArgs, port_args: PortArgs, ready: ReadySender) -> None:
    """What runs in the child: prepare the process, import the entry point, run it, report how it failed."""
    die_with_parent(before_exit=port_args.cleanup)
    signal.pthread_sigmask(signal.SIG_BLOCK, PARENT_DECIDES)
    signal.signal(END_SIGNAL, _leave)
    os.environ.setdefault("GOMP_SPINCOUNT", OPENMP_SPINS)  # read when torch is imported, by the entry point
    logging.basicConfig(level=server_args.log_level.upper(), format=f"[%(asctime)s {role}] %(message)s")
    try:
        _resolve(entry)(server_args, port_args, ready)
    except Exception as error:
        if not isinstance(error, FormatError | LoadError):  # whose messages say what is wrong with the files
            traceback.print_exc()
        ready.send(ProcessFailed(role=role, reason=f"{type(error).__name__}: {error}"))
        sys.exit(1)


def _leave(signum: int, frame: FrameType | None) -> None:
    sys.exit(0)  # by an exception, so that libraries can give back what they hold (semaphores)


def _resolve(entry: Entry) -> Callable[[ServerArgs, PortArgs, ReadySender], None]:
    if not isinstance(entry, str):
        return entry
    module, _, name = entry.partition(":")
    function: Callable[[ServerArgs, PortArgs, ReadySender], None] = getattr(importlib.import_module(module), name)
    return function


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """A child inherits the blocking, so that no signal hits it before its own code runs."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, PARENT_DECIDES)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
