"""Two servers for one port: a stand-in while the model loads, and the real one, which ends gracefully."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.types import Receive, Scope, Send

from sglang.api.errors import http_error, json_response
from sglang.api.lifecycle import Lifecycle
from sglang.ipc.inputs import GenerateReqInput

if TYPE_CHECKING:
    from sglang.engine.launcher import System

logger = logging.getLogger(__name__)

READY_LINE = "The server is fired up and ready to roll!"
FINISH_SECONDS = 30.0
"""How long running requests may go on after a stop was asked for."""
ABORT_SECONDS = 2.0
"""How long aborted requests may take to end after that."""


async def starting_app(scope: Scope, receive: Receive, send: Send) -> None:
    """503 to everything."""
    error = http_error(503, "The server is starting.")
    await json_response(error.body, error.status)(scope, receive, send)


class StartingServer:
    """Answers on the port from a thread. ``with`` starts it and asks it to end; :meth:`join` waits for that."""

    def __init__(self, listener: socket.socket, options: dict[str, Any]) -> None:
        config = uvicorn.Config(starting_app, access_log=False, **options)
        config.load()  # reads the TLS files: wrong ones are reported before the model loads
        self._server = uvicorn.Server(config)
        self._socket = listener.dup()
        self._thread = threading.Thread(target=self._run, name="sglang-starting", daemon=True)

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exc: object) -> None:
        self._server.should_exit = True

    def join(self) -> None:
        self._thread.join()


class GracefulServer(uvicorn.Server):
    """Says when it is ready; on the first signal lets running requests finish; on the second leaves at once."""

    def __init__(self, config: uvicorn.Config, system: System, life: Lifecycle, starting: StartingServer) -> None:
        super().__init__(config)
        self._system = system
        self._life = life
        self._starting = starting
        self._deadline = 0.0
        self._aborting = False
        self._warm_up: asyncio.Task[None] | None = None
        self._warm_up_failure: str | None = None
        life.starting = True

    @property
    def failure(self) -> str | None:
        """Why the server ended by itself; None when it was asked to."""
        return self._system.failure or self._warm_up_failure

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._warm_up = asyncio.ensure_future(self._become_ready())

    async def _become_ready(self) -> None:
        try:
            if not self._system.server_args.skip_server_warmup:
                await self._answer_one_request()
            await asyncio.to_thread(self._starting.join)
        except Exception as error:
            self._warm_up_failure = f"the warm-up request failed: {error}"
            self.should_exit = True
            return
        self._life.starting = False
        for start in self._life.on_ready:
            start()
        args = self._system.server_args
        logger.info("%s is served on %s", args.served_model_name, args.url(self._port()))
        print(READY_LINE, flush=True)

    def _port(self) -> int | None:
        for server in self.servers:
            for listener in server.sockets:
                return int(listener.getsockname()[1])
        return None

    async def _answer_one_request(self) -> None:
        tm = self._system.tokenizer_manager
        params = {"max_new_tokens": 4, "temperature": 0.0, "ignore_eos": True}
        # The key keeps the warm-up's prefix apart from those of users.
        request = GenerateReqInput(input_ids=[0, 1], sampling_params=params, extra_key="server-warm-up", no_logs=True)
        group = await tm.submit(request)
        await group.wait()
        for stream in group.streams:
            stream.raise_for_abort()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._life.stopping:
            self.should_exit = self.force_exit = True
            return
        self._life.stopping = True
        self._deadline = time.monotonic() + FINISH_SECONDS
        if self._life.active:
            logger.info("finishing %d running requests; another signal ends them", self._life.active)

    async def on_tick(self, counter: int) -> bool:
        if await super().on_tick(counter) or self.failure is not None:
            return True
        if not self._life.stopping:
            return False
        if self._life.active and time.monotonic() > self._deadline and not self._aborting:
            self._aborting = True
            self._deadline += ABORT_SECONDS
            await self._system.tokenizer_manager.abort(abort_all=True)
        return not self._life.active or time.monotonic() > self._deadline
