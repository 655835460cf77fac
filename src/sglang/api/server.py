"""``launch_server``: one blocking call from settings to a served port, and back to a clean machine.

The port is bound first, so that a taken one is noticed at once; while the model loads, it answers 503.
"""

from __future__ import annotations

import logging
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from sglang.api.app import create_app
from sglang.api.graceful import GracefulServer, StartingServer
from sglang.config.env import read_env
from sglang.config.server_args import ServerArgs
from sglang.engine.launcher import System, launch_system
from sglang.system.net import check_port_free

logger = logging.getLogger(__name__)


def launch_server(server_args: ServerArgs) -> int:
    """Serve until a signal or a failure ends it; returns the exit status.

    0: stopped by SIGINT or SIGTERM, running requests finished (a second signal doesn't wait for them).
    1: could not start, or a process died; the reason is the last line on stderr.
    """
    _set_up_logging(server_args)
    try:
        listener = _bind(server_args.host, server_args.port)
        options = _uvicorn_options(server_args)
        starting = StartingServer(listener, options)
    except (OSError, ssl.SSLError, ValueError, AssertionError) as error:
        return _fail(f"can't listen on {server_args.host}:{server_args.port}: {error}")
    try:
        with _signals_interrupt(), starting:
            system = launch_system(server_args)
    except KeyboardInterrupt:
        return 0
    except (RuntimeError, ValueError, OSError) as error:  # a bad model or flag explains itself
        logger.debug("start failed", exc_info=True)
        return _fail(str(error))
    return _serve(system, listener, options, starting)


def _serve(system: System, listener: socket.socket, options: dict[str, Any], starting: StartingServer) -> int:
    failure: str | None = None
    try:
        app = create_app(system.tokenizer_manager, system.server_args)
        server = GracefulServer(uvicorn.Config(app, **options), system, app.state.lifecycle, starting)
        server.run(sockets=[listener])
        failure = server.failure
    except KeyboardInterrupt:
        pass
    finally:
        with _signals_ignored():
            system.shutdown()
    return 0 if failure is None else _fail(failure)


def _fail(reason: str) -> int:
    print(f"error: {reason}", file=sys.stderr, flush=True)
    return 1


def _bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError with a message that names the port."""
    if port:
        check_port_free(host, port)
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address)
    listener.listen(2048)
    return listener


def _uvicorn_options(args: ServerArgs) -> dict[str, Any]:
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


def _set_up_logging(args: ServerArgs) -> None:
    logging.basicConfig(level=args.log_level.upper(), format="[%(asctime)s] %(message)s")
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)  # its start-up lines repeat ours
    access = logging.getLogger("uvicorn.access")
    access.setLevel((args.log_level_http or args.log_level).upper())
    prefixes = tuple(args.uvicorn_access_log_exclude_prefixes or ())
    if prefixes:
        # The record's arguments are: client, method, path, HTTP version, status.
        access.addFilter(lambda record: not str((record.args or ("", "", ""))[2]).startswith(prefixes))  # type: ignore[index]


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """While the system starts, SIGTERM ends it as Ctrl-C does: by an exception that cleans up on its way."""

    def interrupt(signum: int, frame: object) -> None:
        raise KeyboardInterrupt

    with _handlers(interrupt):
        yield


@contextmanager
def _signals_ignored() -> Iterator[None]:
    """Nothing may interrupt the (short, bounded) cleaning up."""
    with _handlers(signal.SIG_IGN):
        yield


@contextmanager
def _handlers(handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can have handlers; embedders end the server in their own way
        return
    before = {signum: signal.signal(signum, handler) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for signum, old in before.items():
            signal.signal(signum, old)
