"""The parent's side of :mod:`sglang.grammar.worker`: starts it, asks it, ends it when it takes too long."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from sglang.grammar.spec import GrammarError, GrammarOptions, GrammarSpec
from sglang.grammar.vocabulary import Vocabulary
from sglang.grammar.worker import Hello, Probe, Verdict, write_record

PATIENCE = 6
"""The clock may run so many times as long as the computing: other processes want the processor too."""
START_SECONDS = 60.0
"""For starting the process and reading the vocabulary."""

_FRAME_HEAD = 4


class ProbeProcess:
    """Tries grammars in a process of its own. One caller at a time."""

    def __init__(
        self,
        tokenizer_path: Path,
        vocab_size: int,
        eos_ids: list[int],
        *,
        seconds: int,
        memory: int,
        pace: float,
    ) -> None:
        self._hello = Hello(
            tokenizer_path=str(tokenizer_path), vocab_size=vocab_size, eos_ids=sorted(eos_ids), memory=memory
        )
        self._seconds = seconds
        self._pace = pace
        self._process: subprocess.Popen[bytes] | None = None
        self._vocabulary: Vocabulary | None = None

    def vocabulary(self) -> Vocabulary:
        """The model's vocabulary, which the process reads, because that takes the interpreter a while."""
        if self._vocabulary is None:
            self._start()
        assert self._vocabulary is not None
        return self._vocabulary

    def check(self, backend: str, spec: GrammarSpec, options: GrammarOptions) -> float:
        """Seconds that compiling took. Raises :class:`GrammarError` for a grammar that must not be used."""
        probe = Probe(backend=backend, spec=spec, options=options, seconds=self._seconds, pace=self._pace)
        try:
            verdict = self._ask(probe)
        except (OSError, EOFError):  # it was gone, as it ends when it is idle for long; or this grammar ended it
            if self._overran():
                raise self._too_long(spec) from None
            try:
                verdict = self._ask(probe)
            except (OSError, EOFError):
                if self._overran():
                    raise self._too_long(spec) from None
                text = f"{spec.kind}: takes too much memory to compile; make it smaller"
                raise GrammarError(text, spec.kind) from None
        if verdict.error is not None:
            raise GrammarError(verdict.error, spec.kind)
        return verdict.seconds

    def reap(self) -> None:
        """Take notice of a process that has ended, as it does when it is idle for long."""
        if self._process is not None and self._process.poll() is not None:
            self.close()

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what was not yet written has nowhere to go
                    pass
        process.wait()

    def _ask(self, probe: Probe) -> Verdict:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        write_record(process.stdin, probe)  # type: ignore[arg-type]
        try:
            data = _read_frame(process, time.monotonic() + PATIENCE * self._seconds)
        except TimeoutError:
            self.close()
            raise self._too_long(probe.spec) from None
        return msgspec.msgpack.decode(data, type=Verdict)

    def _overran(self) -> bool:
        """Clear away the process; whether it was ended because it computed for too long."""
        process = self._process
        if process is not None:
            try:
                process.wait(1.0)  # its pipe was closed, so it is about to be gone
            except subprocess.TimeoutExpired:
                pass
        self.close()
        return process is not None and process.returncode == -signal.SIGXCPU

    def _too_long(self, spec: GrammarSpec) -> GrammarError:
        return GrammarError(f"{spec.kind}: takes longer than {self._seconds} s to compile; make it smaller", spec.kind)

    def _start(self) -> None:
        self._process = process = subprocess.Popen(
            [sys.executable, "-m", "sglang.grammar.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        write_record(process.stdin, self._hello)  # type: ignore[arg-type]
        data = _read_frame(process, time.monotonic() + START_SECONDS)
        if self._vocabulary is None:
            self._vocabulary = msgspec.msgpack.decode(data, type=Vocabulary)


def _read_frame(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    """The next record's bytes. Raises EOFError where the process is gone, TimeoutError at the deadline."""
    assert process.stdout is not None
    handle = process.stdout.fileno()
    data = bytearray()
    wanted = _FRAME_HEAD
    while len(data) < wanted:
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not select.select([handle], [], [], remaining)[0]:
            raise TimeoutError
        chunk = os.read(handle, 1 << 20)
        if not chunk:
            raise EOFError
        data += chunk
        if len(data) >= _FRAME_HEAD:
            wanted = _FRAME_HEAD + int.from_bytes(data[:_FRAME_HEAD], "little")
    return bytes(data[_FRAME_HEAD:])
