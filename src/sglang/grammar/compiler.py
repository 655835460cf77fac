"""Compiles grammars in the background, each once: cache, threads, and the probe that goes before."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Protocol

from sglang.grammar.backend import Backend, Compiled
from sglang.grammar.libraries import make_backend
from sglang.grammar.probe import ProbeProcess
from sglang.grammar.route import route
from sglang.grammar.spec import GrammarError, GrammarOptions, GrammarSpec
from sglang.grammar.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

REAP_SECONDS = 30.0
"""How often an idle compiler looks whether its probe process has ended."""
CACHE_ENTRIES = 256
CACHE_BYTES = 256 << 20
LARGEST = 128 << 20
"""Bytes of one compiled grammar."""
MAX_PENDING = 256
"""Grammars that may wait to be compiled."""
COMPILE_SECONDS = 5
COMPILE_MEMORY = 1 << 30
PACE = 0.02
"""Seconds a token may take in the probe, on average."""


@dataclass(frozen=True, slots=True)
class GrammarStats:
    """Counters since the start."""

    compiled: int
    cache_hits: int
    refused: int
    seconds: float


class GrammarSource(Protocol):
    """Where the scheduler gets grammars from."""

    vocab_size: int
    """Tokens that a mask speaks of."""

    def get(self, spec: GrammarSpec) -> Future[Compiled]:
        """A compiled grammar, now or later; the future may raise :class:`GrammarError`."""
        ...


class GrammarCompiler:
    """Implements :class:`GrammarSource`. ``get`` is for one thread, the scheduler's."""

    def __init__(
        self,
        backend: str,
        options: GrammarOptions,
        vocab_size: int,
        probe: ProbeProcess,
        make: Callable[[str, Vocabulary, GrammarOptions], Backend] = make_backend,
    ) -> None:
        self.vocab_size = vocab_size
        self._preferred = backend
        self._options = options
        self._probe = probe
        self._make = make
        self._backends: dict[str, Backend] = {}
        self._cache: OrderedDict[GrammarSpec, Future[Compiled]] = OrderedDict()
        self._todo: SimpleQueue[tuple[GrammarSpec, Future[Compiled]]] = SimpleQueue()
        self._thread: Thread | None = None
        self._counts = {"compiled": 0, "cache_hits": 0, "refused": 0}
        self._seconds = 0.0

    def get(self, spec: GrammarSpec) -> Future[Compiled]:
        """See :class:`GrammarSource`."""
        known = self._cache.get(spec)
        if known is not None:
            self._cache.move_to_end(spec)
            self._counts["cache_hits"] += known.done()
            return known
        pending = sum(not entry.done() for entry in self._cache.values())
        if pending >= MAX_PENDING:
            full: Future[Compiled] = Future()
            full.set_exception(GrammarError(f"{spec.kind}: {pending} grammars already wait to be compiled", spec.kind))
            return full
        future: Future[Compiled] = Future()
        self._cache[spec] = future
        self._todo.put((spec, future))
        if self._thread is None:
            # A daemon, unlike the threads of an executor pool: the end of the process must not wait for a compilation.
            self._thread = Thread(target=self._work, name="grammar", daemon=True)
            self._thread.start()
        self._shrink()
        return future

    def stats(self) -> GrammarStats:
        return GrammarStats(**self._counts, seconds=self._seconds)

    def close(self) -> None:
        """End the probe."""
        self._probe.close()

    # -------------------------------------------------------------- in the background

    def _work(self) -> None:
        while True:
            try:
                spec, future = self._todo.get(timeout=REAP_SECONDS)
            except Empty:
                self._probe.reap()
                continue
            try:
                future.set_result(self._compile(spec))
            except BaseException as error:  # whoever waits gets it; a panic of a native library is no Exception
                future.set_exception(error)

    def _compile(self, spec: GrammarSpec) -> Compiled:
        begin = time.perf_counter()
        try:
            backend = route(spec, self._preferred)
            self._probe.check(backend, spec, self._options)
            compiled = self._backend(backend).compile(spec)
            if compiled.size > LARGEST:
                text = f"{spec.kind}: the compiled grammar takes {compiled.size >> 20} MB; at most {LARGEST >> 20} MB"
                raise GrammarError(text, spec.kind)
        except GrammarError:
            self._counts["refused"] += 1
            raise
        except Exception:
            logger.exception("a grammar of kind %s could not be compiled", spec.kind)
            raise
        self._counts["compiled"] += 1
        self._seconds += time.perf_counter() - begin
        return compiled

    def _backend(self, name: str) -> Backend:
        if name not in self._backends:
            self._backends[name] = self._make(name, self._probe.vocabulary(), self._options)
        return self._backends[name]

    # -------------------------------------------------------------- the cache

    def _shrink(self) -> None:
        """Forget the grammars that nobody asked for in the longest time. Requests that use one keep it."""
        while len(self._cache) > CACHE_ENTRIES or self._bytes() > CACHE_BYTES:
            oldest = next((spec for spec, entry in self._cache.items() if entry.done()), None)
            if oldest is None:
                return
            del self._cache[oldest]

    def _bytes(self) -> int:
        done = [entry for entry in self._cache.values() if entry.done() and not entry.cancelled()]
        return sum(entry.result().size for entry in done if entry.exception() is None)


def make_compiler(
    backend: str, options: GrammarOptions, tokenizer_path: Path, vocab_size: int, eos_ids: list[int]
) -> GrammarCompiler:
    """Starts nothing yet: the first grammar does."""
    probe = ProbeProcess(
        tokenizer_path,
        vocab_size,
        eos_ids,
        seconds=COMPILE_SECONDS,
        memory=COMPILE_MEMORY,
        pace=PACE,
    )
    return GrammarCompiler(backend, options, vocab_size, probe)
