"""An event loop in a thread of its own, usable from any thread and from inside other event loops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")

_END = object()


class BackgroundLoop(asyncio.SelectorEventLoop):
    """Runs from creation until :meth:`stop_thread`. ``run_until_complete`` waits for a result from any other thread."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.Thread(target=self._run, name="sglang-engine-loop", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self)
        self.run_forever()
        self.close()

    def is_own_thread(self) -> bool:
        return threading.current_thread() is self._thread

    def stop_thread(self) -> None:
        """Stop the loop and wait for its thread. Idempotent."""
        if not self.is_closed():
            self.run_until_complete(self.shutdown_asyncgens())
            self.run_until_complete(self.shutdown_default_executor())
            self.call_soon_threadsafe(self.stop)
        self._thread.join()

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        """Run ``future`` in the loop's thread and wait for its result here."""
        if self.is_own_thread():
            raise RuntimeError("a blocking call inside the engine's own event loop would wait for itself; use await")
        task = asyncio.run_coroutine_threadsafe(_await(future), self)
        try:
            return task.result()
        except BaseException:
            task.cancel()  # KeyboardInterrupt here must end the work there
            raise

    async def run_from_outside(self, work: Coroutine[Any, Any, T]) -> T:
        """Await ``work``, run in this loop, from whichever event loop the caller is in."""
        if asyncio.get_running_loop() is self:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self))

    def iterate(self, source: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """Items of an asynchronous generator that lives in this loop. Leaving early closes it at once."""
        try:
            while (item := self.run_until_complete(anext(source, _END))) is not _END:
                yield item  # type: ignore[misc]
        finally:
            if not self.is_closed():
                self.run_until_complete(source.aclose())

    async def iterate_from_outside(self, source: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """:meth:`iterate` for callers in another event loop."""
        try:
            while (item := await self.run_from_outside(_await(anext(source, _END)))) is not _END:
                yield item  # type: ignore[misc]
        finally:
            if not self.is_closed():
                await self.run_from_outside(_await(source.aclose()))


async def _await(awaitable: Generator[Any, None, T] | Awaitable[T]) -> T:
    return await awaitable  # type: ignore[misc, no-any-return]
