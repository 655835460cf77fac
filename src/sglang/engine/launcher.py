"""Start a whole system: children first, then, while they load, the parent's own part; then wait until all are ready."""

from __future__ import annotations

import dataclasses
import logging
import os
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from sglang.config import model_files
from sglang.config.ports import PortArgs
from sglang.config.resolve import resolve_args
from sglang.config.server_args import ServerArgs
from sglang.config.validate import NoEffectWarning
from sglang.engine.children import (
    DETOKENIZER_ENTRY,
    END_SIGNAL,
    GUARD_HELP,
    SCHEDULER_ENTRY,
    Child,
    Entry,
    main_script_is_unguarded,
    refuse_inside_bootstrap,
    start_child,
)
from sglang.engine.supervisor import Supervisor, death_reason
from sglang.formats.embedded import EMBEDDED_NAME
from sglang.ipc.messages import ProcessFailed, ProcessReady
from sglang.ipc.startup import read_ready

if TYPE_CHECKING:
    from sglang.processes.tokenizer.manager import TokenizerManager

logger = logging.getLogger(__name__)

STOP_SECONDS = 1.5
"""How long children may take to end after being asked, before they are killed."""


class LaunchError(RuntimeError):
    """The system did not come up."""


class System:
    """A running system: the parent's tokenizer manager and the children, with one way to end it all."""

    def __init__(
        self,
        server_args: ServerArgs,
        port_args: PortArgs,
        children: list[Child],
        tokenizer_manager: TokenizerManager,
        on_failure: Callable[[str], None] | None,
    ) -> None:
        self.server_args = server_args
        self.port_args = port_args
        self.children = children
        self.tokenizer_manager = tokenizer_manager
        self.failure: str | None = None
        """Why the system ended by itself."""
        self._on_failure = on_failure
        self._supervisor = Supervisor(children, self._child_died)

    @property
    def scheduler_info(self) -> dict[str, Any]:
        return self.tokenizer_manager.scheduler_info

    def child_pids(self) -> list[int]:
        return [child.process.pid for child in self.children if child.process.pid is not None]

    def stop_processes(self) -> None:
        """End the children and remove the sockets' directory. Idempotent."""
        self._supervisor.stop()
        end_children(self.children)
        self.port_args.cleanup()

    def shutdown(self) -> None:
        """End everything. Idempotent. Where the manager's event loop still runs, call this from that loop's thread."""
        self.stop_processes()
        self.tokenizer_manager.close()

    def _child_died(self, reason: str) -> None:
        self.failure = reason
        self.tokenizer_manager.fail_from_thread(reason)
        end_children(self.children)
        self.port_args.cleanup()
        logger.error("the system is down: %s", reason)
        if self._on_failure is not None:
            self._on_failure(reason)


class Launch:
    """Processes that are starting. Children load while the caller does its own part; then :meth:`finish` waits.

    As a context manager it ends the children unless :meth:`finish` has handed them to a :class:`System`.
    """

    def __init__(
        self,
        server_args: ServerArgs,
        scheduler_entry: Entry = SCHEDULER_ENTRY,
        detokenizer_entry: Entry = DETOKENIZER_ENTRY,
    ) -> None:
        """Start the children. Raises what is wrong with model or settings before anything has started."""
        refuse_inside_bootstrap()
        self._args, self._child_args = resolve(server_args)
        self._port_args = PortArgs.init_new(self._args)
        self._children: list[Child] = []
        try:
            self._start("scheduler", scheduler_entry)
            if not self._args.skip_tokenizer_init:
                self._start("detokenizer", detokenizer_entry)
        except BaseException:
            self.cancel()
            raise

    def _start(self, role: str, entry: Entry) -> None:
        self._children.append(start_child(role, entry, self._child_args, self._port_args))

    def finish(
        self,
        on_failure: Callable[[str], None] | None = None,
        manager_type: type[TokenizerManager] | None = None,
    ) -> System:
        """The running system, once all processes can serve; see :func:`launch_system`."""
        # Imported here: tokenizers, templates and NumPy load in this process while the model does in another.
        from sglang.engine.front import load_front, make_manager

        front = load_front(self._child_args)
        scheduler_info = wait_until_ready(self._children)
        manager = make_manager(manager_type, self._args, self._port_args, front, scheduler_info)
        children, self._children = self._children, []
        return System(self._args, self._port_args, children, manager, on_failure)

    def cancel(self) -> None:
        """End the children and remove the sockets' directory. Idempotent."""
        end_children(self._children)
        self._port_args.cleanup()

    def __enter__(self) -> Launch:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._children:
            self.cancel()


def launch_system(
    server_args: ServerArgs,
    on_failure: Callable[[str], None] | None = None,
    scheduler_entry: Entry = SCHEDULER_ENTRY,
    detokenizer_entry: Entry = DETOKENIZER_ENTRY,
    manager_type: type[TokenizerManager] | None = None,
) -> System:
    """Start all processes and return when they can serve.

    ``on_failure(reason)`` is called, from a thread of its own, when a child dies later; by then all pending requests
    have got an error and the other children are gone. Raises :class:`LaunchError` with the reason when a child fails
    to start, and whatever is wrong with model or settings; nothing is left behind then.
    """
    with Launch(server_args, scheduler_entry, detokenizer_entry) as launch:
        return launch.finish(on_failure, manager_type)


def resolve(server_args: ServerArgs) -> tuple[ServerArgs, ServerArgs]:
    """Settings without open ends: as shown to people, and for the children, with local paths."""
    path = str(model_files.model_path(server_args))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoEffectWarning)  # said once already, when ``server_args`` was made
        if not server_args.model_path:
            name = server_args.served_model_name or EMBEDDED_NAME
            server_args = dataclasses.replace(server_args, model_path=path, served_model_name=name)
        args = resolve_args(server_args).args
        tokenizer = str(model_files.tokenizer_path(args)) if args.tokenizer_path != args.model_path else path
        return args, dataclasses.replace(args, model_path=path, tokenizer_path=tokenizer)


def wait_until_ready(children: list[Child]) -> dict[str, Any]:
    """Wait for the word of every child; returns what the scheduler found out about itself."""
    started = time.monotonic()
    waiting = {child.ready: child for child in children}
    scheduler_info: dict[str, Any] = {}
    while waiting:
        for connection in wait(list(waiting)):
            child = waiting.pop(connection)  # type: ignore[call-overload]
            message = read_ready(child.ready)
            if not isinstance(message, ProcessReady):
                raise LaunchError(_launch_failure(child, message))
            logger.info("%s ready after %.1f s", child.role, time.monotonic() - started)
            if child.role == "scheduler":
                scheduler_info = message.info
    return scheduler_info


def _launch_failure(child: Child, message: object) -> str:
    if isinstance(message, ProcessFailed):
        return f"the {child.role} process could not start: {message.reason}"
    reason = f"{death_reason(child)} before it was ready; its own messages stand above"
    # The child died before our code ran in it, as it does when importing the main script raises.
    return f"{reason}. Most likely {GUARD_HELP}" if main_script_is_unguarded() else reason


def end_children(children: list[Child]) -> None:
    """Ask all to end, then insist. Returns when none is left."""
    for child in children:
        if child.process.is_alive() and child.process.pid is not None:
            try:
                os.kill(child.process.pid, END_SIGNAL)
            except ProcessLookupError:
                pass  # the thread that watches it has just collected its exit status
    deadline = time.monotonic() + STOP_SECONDS
    for child in children:
        child.process.join(max(0.0, deadline - time.monotonic()))
        if child.process.is_alive():
            child.process.kill()
            child.process.join()
