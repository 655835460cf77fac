"""Start a whole system: children first, then, while they load, the parent's own part; then wait until all are ready."""

from __future__ import annotations

import dataclasses
import logging
import os
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

from sglang.config import model_files
from sglang.config.model_config import ModelConfig
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
from sglang.processes.tokenizer.manager import TokenizerManager
from sglang.text.chat_template import ChatTemplate, load_chat_template
from sglang.text.tokenizer import Tokenizer, load_tokenizer

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


def launch_system(
    server_args: ServerArgs,
    on_failure: Callable[[str], None] | None = None,
    scheduler_entry: Entry = SCHEDULER_ENTRY,
    detokenizer_entry: Entry = DETOKENIZER_ENTRY,
    manager_type: type[TokenizerManager] = TokenizerManager,
) -> System:
    """Start all processes and return when they can serve.

    ``on_failure(reason)`` is called, from a thread of its own, when a child dies later; by then all pending requests
    have got an error and the other children are gone. Raises :class:`LaunchError` with the reason when a child fails
    to start, and whatever is wrong with model or settings; nothing is left behind then.
    """
    refuse_inside_bootstrap()
    args, child_args = resolve(server_args)
    port_args = PortArgs.init_new(args)
    children: list[Child] = []
    try:
        children.append(start_child("scheduler", scheduler_entry, child_args, port_args))
        if not args.skip_tokenizer_init:
            children.append(start_child("detokenizer", detokenizer_entry, child_args, port_args))
        config, tokenizer, template = load_front(child_args)
        scheduler_info = wait_until_ready(children)
        manager = manager_type(args, port_args, config, tokenizer, template, scheduler_info)
        return System(args, port_args, children, manager, on_failure)
    except BaseException:
        end_children(children)
        port_args.cleanup()
        raise


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


def load_front(args: ServerArgs) -> tuple[ModelConfig, Tokenizer | None, ChatTemplate | None]:
    """What the parent needs of the model: its description, tokenizer and chat template."""
    config = model_files.model_config(args)
    if args.skip_tokenizer_init:
        return config, None, None
    tokenizer = load_tokenizer(model_files.tokenizer_path(args))
    return config, tokenizer, load_chat_template(args.chat_template, tokenizer)


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
            os.kill(child.process.pid, END_SIGNAL)  # still ours: its exit status has not been collected
    deadline = time.monotonic() + STOP_SECONDS
    for child in children:
        child.process.join(max(0.0, deadline - time.monotonic()))
        if child.process.is_alive():
            child.process.kill()
            child.process.join()
