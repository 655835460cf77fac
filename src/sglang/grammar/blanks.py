"""Limits white space between the parts of JSON, next to a grammar that allows any amount.

A grammar can count blanks itself, but then has to keep so many places in mind that every mask takes ten times as long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from sglang.grammar.backend import MaskRow, Matcher
from sglang.grammar.vocabulary import Vocabulary, mask_words

MOST_COUNTED = 256
"""A larger limit is none: a table of masks is kept for every count."""
BLANKS = b" \n\r\t"
_QUOTE, _BACKSLASH = b'"\\'


class BlankTokens:
    """What the tokens of a vocabulary may bring outside strings. ``limit``: blanks in a row that may pass."""

    def __init__(self, vocabulary: Vocabulary, limit: int) -> None:
        self.tokens = vocabulary.tokens
        self.limit = limit
        long = re.compile(rb"[ \n\r\t]{%d}" % (limit + 1))
        leading: list[list[int]] = [[] for _ in range(limit + 1)]  # token ids by the number of blanks they begin with
        words = mask_words(len(self.tokens))
        for number, token in enumerate(self.tokens):
            if not long.search(token):
                leading[len(token) - len(token.lstrip(BLANKS))].append(number)
        self.after: list[MaskRow] = []
        """Run of blanks so far → tokens that may follow."""
        allowed = np.zeros(words, np.int32)
        for ids in leading:
            allowed = allowed | _bits(ids, words)
            self.after.insert(0, allowed)


class BlankLimit:
    """A matcher of JSON that also limits blanks outside strings."""

    __slots__ = ("_escaped", "_in_string", "_matcher", "_run", "_tokens")

    def __init__(self, matcher: Matcher, tokens: BlankTokens) -> None:
        self._matcher = matcher
        self._tokens = tokens
        self._in_string = False
        self._escaped = False
        self._run = 0

    def accept(self, token: int) -> bool:
        self._read(self._tokens.tokens[token])
        return self._matcher.accept(token)

    def fill(self, mask: MaskRow) -> None:
        self._matcher.fill(mask)
        if not self._in_string:
            mask &= self._tokens.after[min(self._run, self._tokens.limit)]

    def _read(self, data: bytes) -> None:
        """Follow strings and blanks."""
        if self._in_string and not self._escaped and b'"' not in data and b"\\" not in data:
            return
        for byte in data:
            if self._in_string:
                if self._escaped:
                    self._escaped = False
                elif byte == _BACKSLASH:
                    self._escaped = True
                elif byte == _QUOTE:
                    self._in_string = False
                    self._run = 0
            elif byte in BLANKS:
                self._run += 1
            else:
                self._run = 0
                self._in_string = byte == _QUOTE


def _bits(ids: Iterable[int], words: int) -> MaskRow:
    bits = np.zeros(32 * words, np.uint8)
    bits[list(ids)] = 1
    return np.packbits(bits, bitorder="little").view("<i4").astype(np.int32)
