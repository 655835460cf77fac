"""The internal sockets are private, short and gone afterwards."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from sglang.config.ports import MAX_SOCKET_PATH, PortArgs
from sglang.config.server_args import ServerArgs

NAMES = ("scheduler_input_ipc_name", "detokenizer_ipc_name", "tokenizer_ipc_name", "rpc_ipc_name", "metrics_ipc_name")


def test_only_the_owner_may_enter_and_cleanup_leaves_nothing() -> None:
    ports = PortArgs.init_new(ServerArgs())
    directory = Path(ports.directory)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    addresses = [getattr(ports, name) for name in NAMES]
    assert all(address.startswith(f"ipc://{directory}/") for address in addresses)
    assert len(set(addresses)) == len(NAMES)
    (directory / "scheduler").touch()
    ports.cleanup()
    ports.cleanup()
    assert not directory.exists()


def test_two_systems_never_share_an_address() -> None:
    first, second = PortArgs.init_new(ServerArgs()), PortArgs.init_new(ServerArgs())
    assert first.directory != second.directory
    first.cleanup()
    second.cleanup()


def test_a_deep_temporary_folder_is_avoided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    ports = PortArgs.init_new(ServerArgs())
    assert len(ports.scheduler_input_ipc_name.removeprefix("ipc://").encode()) <= MAX_SOCKET_PATH
    assert list(deep.iterdir()) == []
    ports.cleanup()
