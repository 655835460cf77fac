"""``launch_server``: one blocking call from settings to a served port, and back to a clean machine.

The port is bound first, so that a taken one is noticed at once; then the children start, so that they load while
this process imports the web framework; while the model loads, the port answers 503.
"""

from __future__ import annotations

import logging
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sglang.config.server_args import ServerArgs
from sglang.engine.launcher import Launch, System
from sglang.system.net import check_port_free

if TYPE_CHECKING:
    from sglang.api.front import Front

logger = logging.getLogger(__name__)


def launch_server(server_args: ServerArgs) -> int:
    """Serve until a signal or a failure ends it; returns the exit status.

    0: stopped by SIGINT or SIGTERM, running requests finished (a second signal doesn't wait for them).
    1: could not start, or a process died; the reason is the last line on stderr.
    """
    _set_up_logging(server_args)
    try:
        listener = _bind(server_args.host, server_args.port)
    except OSError as error:
        return _fail(f"can't listen on {server_args.host}:{server_args.port}: {error}")
    try:
        with _signals_interrupt(), Launch(server_args) as launch:
            # Imported here: the web framework loads in this process while the model does in another.
            from sglang.api.front import Front

            front = Front(listener, server_args)
            with front.answering_503():
                system = launch.finish()
    except KeyboardInterrupt:
        return 0
    except (RuntimeError, ValueError, OSError) as error:  # a bad model or flag explains itself
        logger.debug("start failed", exc_info=True)
        return _fail(str(error))
    return _serve(front, system)


def _serve(front: Front, system: System) -> int:
    failure: str | None = None
    try:
        failure = front.serve(system)
    except ValueError as error:  # a setting of the doors that can't be used explains itself
        logger.debug("start failed", exc_info=True)
        failure = str(error)
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
