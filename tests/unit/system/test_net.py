"""A taken port is found out before anything starts."""

from __future__ import annotations

import socket

import pytest

from sglang.system.net import PortInUseError, check_port_free


def test_a_taken_port_is_named_with_the_way_out() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(PortInUseError, match=rf"port {port} .* in use.*--port"):
            check_port_free("127.0.0.1", port)
    check_port_free("127.0.0.1", port)


def test_an_address_of_another_machine_is_named() -> None:
    with pytest.raises(PortInUseError, match=r"port 30000 on 203\.0\.113\.1"):
        check_port_free("203.0.113.1", 30000)
