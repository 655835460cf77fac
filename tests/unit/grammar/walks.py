"""Random outputs under a grammar."""

from __future__ import annotations

import random

import numpy as np

from sglang.grammar.backend import Compiled, Matcher
from sglang.grammar.vocabulary import Vocabulary

CLOSING = b'"}],:0123456789'
"""Bytes that bring JSON to an end; preferred, or a string would go on for ever."""


def allowed(matcher: Matcher, vocabulary: Vocabulary) -> list[int]:
    mask = np.zeros(vocabulary.words, np.int32)
    matcher.fill(mask)
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little", count=len(vocabulary.tokens))
    ids: list[int] = np.flatnonzero(bits).tolist()
    return ids


def walk(compiled: Compiled, vocabulary: Vocabulary, rng: random.Random, limit: int = 300) -> bytes | None:
    """A random output that the grammar takes to its end; None when it has not ended after ``limit`` tokens."""
    matcher = compiled.matcher()
    output = b""
    for _ in range(limit):
        ids = allowed(matcher, vocabulary)
        assert ids, f"nothing may follow {output!r}"
        assert not set(ids) & (set(vocabulary.special_ids) - set(vocabulary.eos_ids)), "a control token is allowed"
        text = [token for token in ids if token not in vocabulary.eos_ids]
        if len(text) < len(ids) and (not text or rng.random() < 0.7):
            assert matcher.accept(vocabulary.eos_ids[0])
            return output
        closing = [token for token in text if vocabulary.tokens[token].strip() in {b'"}', b"]]"} | _CLOSING]
        token = rng.choice(closing if closing and rng.random() < 0.6 else text)
        assert matcher.accept(token)
        output += vocabulary.tokens[token]
    return None


def takes(compiled: Compiled, text: str, vocabulary: Vocabulary) -> bool:
    """Whether the grammar takes this text, byte by byte, as a whole output."""
    matcher = compiled.matcher()
    for byte in text.encode():
        token = vocabulary.tokens.index(bytes([byte]))
        if token not in allowed(matcher, vocabulary):
            return False
        assert matcher.accept(token)
    return bool(set(allowed(matcher, vocabulary)) & set(vocabulary.eos_ids))


_CLOSING = {bytes([byte]) for byte in CLOSING}
