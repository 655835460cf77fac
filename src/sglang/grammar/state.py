"""One request's place in its grammar, and the mask of its next token."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

import numpy as np

from sglang.grammar.backend import Compiled, MaskRow
from sglang.grammar.spec import GrammarError
from sglang.grammar.vocabulary import mask_words

PATIENCE = 0.5
"""Seconds of computing that following a grammar may take beyond its pace."""
WATCH_EVERY = 8
"""Tokens from one look at the clock to the next: looking takes as long as a fill."""
PACE = 0.005
"""Seconds of computing a token may take, on average: whatever a grammar costs, all requests of the step wait for it."""


class GrammarState:
    """Follows one output. ``mask`` [words] is always the same array, so that whoever samples can keep it.

    While the request thinks (until its ``think_end_ids`` have been generated) everything is allowed.
    """

    __slots__ = (
        "_eos",
        "_last",
        "_late",
        "_matcher",
        "_min_tokens",
        "_spent",
        "_think_end",
        "_tokens",
        "done",
        "forced",
        "mask",
    )

    def __init__(
        self,
        compiled: Compiled,
        vocab_size: int,
        eos_ids: Collection[int],
        stop_ids: Collection[int],
        *,
        ignore_eos: bool = False,
        min_new_tokens: int = 0,
        think_end_ids: Sequence[int] = (),
    ) -> None:
        self._matcher = compiled.matcher()
        self._eos = frozenset(eos_ids)
        words = mask_words(vocab_size)
        self._last = np.int32(-1 if vocab_size % 32 == 0 else (1 << vocab_size % 32) - 1)  # bits of the last word
        self._late = _words_of(stop_ids, words)
        self._min_tokens = np.iinfo(np.int64).max if ignore_eos else min_new_tokens
        self._think_end = list(think_end_ids)
        self._tokens = 0
        self._spent = 0.0
        self.mask: MaskRow = np.full(words, -1, np.int32)
        self.done = False
        """The grammar is complete, and the end token was taken."""
        self.forced: int | None = None
        """The only token that may come next, where there is only one."""
        if not self._think_end:
            self._fill()

    @property
    def is_active(self) -> bool:
        """Whether ``mask`` says anything yet."""
        return not self._think_end

    def advance(self, output_ids: Sequence[int]) -> None:
        """Take the newest token of an output. Raises :class:`GrammarError` where the grammar can't be followed."""
        self._tokens += 1
        if self._think_end:
            if list(output_ids[-len(self._think_end) :]) == self._think_end:
                self._think_end = []
                self._fill()
            return
        watched = self._tokens % WATCH_EVERY == 0
        begin = time.thread_time() if watched else 0.0
        token = output_ids[-1]
        if not self._matcher.accept(token):
            raise GrammarError(f"the grammar does not allow the token {token} here")
        if token in self._eos:
            self.done = True
            self.forced = None
            return
        self._fill()
        if watched:
            self._spent += WATCH_EVERY * (time.thread_time() - begin)
            if self._spent > PATIENCE + PACE * self._tokens:
                raise GrammarError("following the grammar takes too long; make it smaller or less ambiguous")

    def _fill(self) -> None:
        mask = self.mask
        self._matcher.fill(mask)
        mask[-1] &= self._last  # libraries may leave anything in what is no token
        used = int(np.count_nonzero(mask))
        if used and self._tokens < self._min_tokens:
            used = self._forbid_end(mask)
        self.forced = _only_bit(mask) if used == 1 else None
        if not used:
            raise GrammarError("the grammar allows no token here")

    def _forbid_end(self, mask: MaskRow) -> int:
        """Not yet the end, unless nothing else may follow. Returns the number of words with a bit. (A few words are
        touched instead of all, because this happens for each token of each request.)"""
        before = [(place, mask[place]) for place, _ in self._late]
        for place, others in self._late:
            mask[place] &= others
        used = int(np.count_nonzero(mask))
        if not used:
            for place, word in before:
                mask[place] = word
            used = int(np.count_nonzero(mask))
        return used


def _words_of(ids: Collection[int], words: int) -> list[tuple[int, np.int32]]:
    """Places of the words that hold the bits of ``ids``, each with the bits that are not theirs."""
    bits: dict[int, int] = {}
    for number in ids:
        if 0 <= number < 32 * words:
            bits[number >> 5] = bits.get(number >> 5, 0) | 1 << (number & 31)
    others = np.array([~word & 0xFFFFFFFF for word in bits.values()], np.uint32).view(np.int32)
    return list(zip(bits, others, strict=True))


def _only_bit(mask: MaskRow) -> int | None:
    """The index of the only bit that is set, in a mask with one word that is not 0; None where that word has more."""
    place = int(mask.nonzero()[0][0])
    word = int(mask[place]) & 0xFFFFFFFF
    return None if word & (word - 1) else 32 * place + word.bit_length() - 1
