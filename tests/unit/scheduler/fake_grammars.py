"""Grammars that are only arithmetic: what may follow depends on the name of the grammar and on all tokens so far."""

from __future__ import annotations

import random
from concurrent.futures import Future

import numpy as np
import numpy.typing as npt

from sglang.grammar.backend import Compiled, MaskRow, Matcher
from sglang.grammar.spec import GrammarError, GrammarSpec

EOS = 11


class FakeMatcher:
    """About half of all places leave one token only; the end token is among the choices now and then."""

    def __init__(self, name: str, vocab_size: int) -> None:
        self._name = name
        self._vocab_size = vocab_size
        self._tokens: list[int] = []

    def choices(self) -> list[int]:
        rng = random.Random(f"{self._name} {self._tokens}")
        return sorted(rng.sample(range(self._vocab_size), rng.choice([1, 1, 2, 5]))) if self._tokens != [EOS] else [EOS]

    def accept(self, token: int) -> bool:
        allowed = token in self.choices()
        self._tokens.append(token)
        return allowed

    def fill(self, mask: MaskRow) -> None:
        bits = np.zeros(32 * mask.size, np.uint8)
        bits[self.choices()] = 1
        mask[:] = np.packbits(bits, bitorder="little").view(np.int32)


class FakeCompiled:
    size = 1

    def __init__(self, name: str, vocab_size: int) -> None:
        self._name = name
        self._vocab_size = vocab_size

    def matcher(self) -> Matcher:
        return FakeMatcher(self._name, self._vocab_size)


class FakeGrammars:
    """Implements :class:`sglang.grammar.compiler.GrammarSource`; "bad" is refused. With ``waits`` a grammar is ready
    only when :meth:`finish` says so."""

    def __init__(self, vocab_size: int, *, waits: bool = False) -> None:
        self.vocab_size = vocab_size
        self.waits = waits
        self.asked: dict[GrammarSpec, Future[Compiled]] = {}

    def get(self, spec: GrammarSpec) -> Future[Compiled]:
        if spec not in self.asked:
            self.asked[spec] = Future()
            if not self.waits:
                self.finish(spec)
        return self.asked[spec]

    def finish(self, spec: GrammarSpec) -> None:
        if spec.text == "bad":
            self.asked[spec].set_exception(GrammarError("regex: is bad", "regex"))
        else:
            self.asked[spec].set_result(FakeCompiled(spec.text, self.vocab_size))


def allowed_tokens(mask: npt.NDArray[np.int32], vocab_size: int) -> list[int]:
    found: list[int] = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little", count=vocab_size)).tolist()
    return found
