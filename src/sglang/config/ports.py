"""Where the processes of one server meet: sockets in a private directory."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sglang.config.server_args import ServerArgs

MAX_SOCKET_PATH = 100
"""Bytes; the kernel's limit for a unix socket path is 108 on Linux and 104 on macOS."""


@dataclass(frozen=True)
class PortArgs:
    """Addresses of the internal sockets, all ``ipc://`` paths below ``directory`` (mode 0700)."""

    scheduler_input_ipc_name: str
    """tokenizer → scheduler"""
    detokenizer_ipc_name: str
    """scheduler → detokenizer"""
    tokenizer_ipc_name: str
    """detokenizer and scheduler → tokenizer"""
    rpc_ipc_name: str
    metrics_ipc_name: str
    directory: str

    @classmethod
    def init_new(cls, server_args: ServerArgs) -> PortArgs:
        """Make a fresh directory; :meth:`cleanup` removes it."""
        directory = _private_directory()

        def name(part: str) -> str:
            return f"ipc://{directory / part}"

        return cls(
            scheduler_input_ipc_name=name("scheduler"),
            detokenizer_ipc_name=name("detokenizer"),
            tokenizer_ipc_name=name("tokenizer"),
            rpc_ipc_name=name("rpc"),
            metrics_ipc_name=name("metrics"),
            directory=str(directory),
        )

    def cleanup(self) -> None:
        """Remove the directory with its sockets. Safe to call twice and from any process."""
        shutil.rmtree(self.directory, ignore_errors=True)


def _private_directory() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="sglang-"))  # mode 0700
    if len(str(directory / "detokenizer").encode()) <= MAX_SOCKET_PATH:
        return directory
    directory.rmdir()
    return Path(tempfile.mkdtemp(prefix="sglang-", dir="/tmp"))  # TMPDIR is too deep for a socket path
