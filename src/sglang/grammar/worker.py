"""The process that meets a grammar first: it compiles it under limits of time and memory, and follows it for a while.

A grammar can be made to take hours or all memory to compile, and no library can be interrupted. Here that hurts
nobody: the parent ends this process and starts another. Run as ``python -m sglang.grammar.worker``: records come in
on standard input, answers go out on what was standard output.
"""

from __future__ import annotations

import math
import os
import random
import resource
import select
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np

from sglang.grammar.backend import Backend, Compiled
from sglang.grammar.libraries import make_backend
from sglang.grammar.spec import GrammarError, GrammarOptions, GrammarSpec
from sglang.grammar.vocabulary import Vocabulary, load_vocabulary
from sglang.system.process import die_with_parent, set_process_title

IDLE_SECONDS = 120.0
"""Without work for so long, the process ends and gives its memory back."""
WALK_TOKENS = 48
"""Tokens for which a grammar is followed at random."""

NICENESS = 5
"""Compiling gives way to the model. (Only here: a thread of the scheduler that gave way could hold the interpreter's
lock while it waits for a processor.)"""

_LENGTH = struct.Struct("<I")


class Hello(msgspec.Struct, tag=True, kw_only=True):
    """First record: which model, and how much memory compiling may take on top (bytes)."""

    tokenizer_path: str
    vocab_size: int
    eos_ids: list[int]
    memory: int


class Probe(msgspec.Struct, tag=True, kw_only=True):
    """Try this grammar."""

    backend: str
    spec: GrammarSpec
    options: GrammarOptions
    seconds: int
    """Seconds of computing it may take; then the system ends the process."""
    pace: float
    """Seconds of computing that following it may take for one token, on average."""


class Verdict(msgspec.Struct, tag=True, kw_only=True):
    """How it went; ``error`` is None for a grammar that is fit for use."""

    error: str | None = None
    seconds: float = 0.0


Record = Hello | Probe | Verdict | Vocabulary
_decoder = msgspec.msgpack.Decoder(Hello | Probe)


def write_record(pipe: BinaryIO, record: msgspec.Struct) -> None:
    data = msgspec.msgpack.encode(record)
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def read_frame(pipe: BinaryIO) -> bytes | None:
    """The bytes of the next record; None at the end."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    data = pipe.read(_LENGTH.unpack(head)[0])
    return data if len(data) == _LENGTH.unpack(head)[0] else None


class Tester:
    """Compiles and follows grammars with one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._backends: dict[tuple[str, GrammarOptions], Backend] = {}

    def prepare(self, probe: Probe) -> Backend:
        """The library that the probe asks for, loaded."""
        key = (probe.backend, probe.options)
        if key not in self._backends:
            self._backends[key] = make_backend(probe.backend, self._vocabulary, probe.options)
        return self._backends[key]

    def test(self, probe: Probe) -> Verdict:
        begin = time.perf_counter()
        kind = probe.spec.kind
        try:
            compiled = self.prepare(probe).compile(probe.spec)
            error = self._walk(compiled, probe.pace, lambda count: 0)
            error = error or self._walk(compiled, probe.pace, random.Random(0).randrange)
        except GrammarError as refusal:
            error = str(refusal)
        except MemoryError:
            error = "takes too much memory to compile; make it smaller"
        if error is not None and not error.startswith(kind):
            error = f"{kind}: {error}"
        return Verdict(error=error, seconds=time.perf_counter() - begin)

    def _walk(self, compiled: Compiled, pace: float, choose: Callable[[int], int]) -> str | None:
        """Follow an output, taking one of each place's tokens; an error text if that takes too long or goes nowhere.

        Always the first (mostly the same again) is what ambiguous grammars bear worst.
        """
        matcher = compiled.matcher()
        mask = np.zeros(self._vocabulary.words, np.int32)
        begin = time.thread_time()
        for step in range(WALK_TOKENS):
            matcher.fill(mask)
            if time.thread_time() - begin > pace * WALK_TOKENS:
                return "following this grammar takes too long; make it smaller or less ambiguous"
            count = len(self._vocabulary.tokens)
            allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little", count=count))
            if not step and not allowed.size:
                return "no text matches this grammar"
            allowed = allowed[~np.isin(allowed, self._vocabulary.eos_ids)]
            if not allowed.size or not matcher.accept(int(allowed[choose(allowed.size)])):
                break
        return None


def main() -> None:
    """Serve the parent until it or the work goes away."""
    # Libraries may print: that must not get between the records.
    source = os.fdopen(os.dup(0), "rb", buffering=0)
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    die_with_parent()
    set_process_title("sglang::grammar")
    os.nice(NICENESS)
    data = read_frame(source)
    if data is None:
        return
    hello = _decoder.decode(data)
    assert isinstance(hello, Hello)
    vocabulary = load_vocabulary(Path(hello.tokenizer_path), hello.vocab_size, hello.eos_ids)
    write_record(sink, vocabulary)
    tester = Tester(vocabulary)
    limited = False
    while select.select([source], [], [], IDLE_SECONDS)[0]:
        data = read_frame(source)
        if data is None:
            return
        probe = _decoder.decode(data)
        assert isinstance(probe, Probe)
        tester.prepare(probe)  # what a library itself takes does not count
        if not limited:
            _limit_memory(hello.memory)
            limited = True
        _limit_time(probe.seconds)
        write_record(sink, tester.test(probe))


def _limit_time(seconds: int) -> None:
    """End this process (SIGXCPU) after so many more seconds of computing; waiting does not count."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    limit = math.ceil(time.process_time()) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (limit if most < 0 else min(limit, most), most))


def _limit_memory(extra: int) -> None:
    """At most ``extra`` bytes on top of what is in use now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + extra
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    main()
