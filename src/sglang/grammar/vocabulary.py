"""A model's vocabulary as grammar libraries need it: the bytes of every token."""

from __future__ import annotations

from pathlib import Path

import msgspec

from sglang.text.tokenizer import Tokenizer, load_tokenizer


class Vocabulary(msgspec.Struct, frozen=True, kw_only=True):
    """``tokens[id]`` is what the token adds to the text; empty for tokens that are no text."""

    tokens: list[bytes]
    special_ids: list[int]
    """Tokens that never are part of a grammar's text: control tokens and padding."""
    eos_ids: list[int]

    @property
    def words(self) -> int:
        """32-bit words of a mask."""
        return mask_words(len(self.tokens))


def mask_words(vocab_size: int) -> int:
    return (vocab_size + 31) // 32


def vocabulary_of(tokenizer: Tokenizer, vocab_size: int, eos_ids: list[int]) -> Vocabulary:
    """``vocab_size`` is the model's: its logits may be wider (padding) or narrower than the tokenizer's vocabulary."""
    special = tokenizer.special_ids
    tokens = [b"" if number in special else tokenizer.token_bytes(number) for number in range(vocab_size)]
    return Vocabulary(
        tokens=tokens,
        special_ids=[number for number, token in enumerate(tokens) if not token],
        eos_ids=[number for number in eos_ids if 0 <= number < vocab_size],
    )


def load_vocabulary(tokenizer_path: Path, vocab_size: int, eos_ids: list[int]) -> Vocabulary:
    return vocabulary_of(load_tokenizer(tokenizer_path, decode_only=True), vocab_size, eos_ids)
