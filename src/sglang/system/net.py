"""Network ports."""

from __future__ import annotations

import socket


class PortInUseError(OSError):
    """The port that was asked for is taken, or can't be bound."""


def check_port_free(host: str, port: int) -> None:
    """Raise :class:`PortInUseError` unless a server could listen on ``host:port`` now.

    A port whose last listener just ended (TIME_WAIT) counts as free.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            text = f"port {port} on {host} can't be used ({error.strerror}); free it or choose another with --port"
            if error.errno == 98 or "in use" in str(error.strerror):
                text = f"port {port} on {host} is in use; stop the program that holds it or choose another with --port"
            raise PortInUseError(text) from error
