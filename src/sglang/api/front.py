"""The HTTP side of one server process, from the stand-in that answers 503 to the application."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from sglang.api.app import create_app
from sglang.api.graceful import GracefulServer, StartingServer
from sglang.config.env import read_env
from sglang.config.server_args import ServerArgs
from sglang.system.process import keep_what_is_loaded

if TYPE_CHECKING:
    from sglang.engine.launcher import System


class Front:
    """What answers on a bound socket."""

    def __init__(self, listener: socket.socket, server_args: ServerArgs) -> None:
        """Raises RuntimeError where the settings of the web server (TLS files) can't be used."""
        self._listener = listener
        self._options = _options(server_args)
        try:
            self._starting = StartingServer(listener, self._options)
        except (OSError, ssl.SSLError, ValueError, AssertionError) as error:
            raise RuntimeError(f"can't listen on {server_args.host}:{server_args.port}: {error}") from error

    @contextmanager
    def answering_503(self) -> Iterator[None]:
        """Answer 503 to everything, from a thread."""
        with self._starting:
            yield

    def serve(self, system: System) -> str | None:
        """Serve until asked to stop (None) or a process dies; returns why the server ended by itself."""
        app = create_app(system.tokenizer_manager, system.server_args)
        config = uvicorn.Config(app, **self._options)
        keep_what_is_loaded()
        server = GracefulServer(config, system, app.state.lifecycle, self._starting)
        server.run(sockets=[self._listener])
        return server.failure


def _options(args: ServerArgs) -> dict[str, Any]:
    return {
        "root_path": args.fastapi_root_path,
        "log_config": None,
        "lifespan": "off",
        "ws": "none",
        "timeout_keep_alive": read_env().timeout_keep_alive,
        "timeout_graceful_shutdown": 1,  # GracefulServer has waited for the requests before
        "ssl_keyfile": args.ssl_keyfile,
        "ssl_certfile": args.ssl_certfile,
        "ssl_keyfile_password": args.ssl_keyfile_password,
        "ssl_ca_certs": args.ssl_ca_certs,
        "ssl_cert_reqs": ssl.CERT_REQUIRED if args.ssl_ca_certs else ssl.CERT_NONE,
    }
