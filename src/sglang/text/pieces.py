"""What each token contributes to the text, as bytes.

Byte-level and SentencePiece-like vocabularies decode piece by piece: the text is the UTF-8 decoding of the pieces'
bytes joined, whatever their neighbours. That makes incremental decoding exact and cheap. The few decoders that look
at neighbours (WordPiece and others) have no pieces; see ``incremental.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tokenizers

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def byte_alphabet() -> dict[str, int]:
    """Character -> byte of byte-level BPE: printable Latin-1 stands for itself, the rest follows from U+0100 on."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in set(visible)]
    return {chr(byte): byte for byte in visible} | {chr(0x100 + n): byte for n, byte in enumerate(hidden)}


@dataclass(frozen=True, slots=True)
class PieceRule:
    """How token strings become bytes."""

    to_bytes: Callable[[str], bytes]
    strip_leading: int = 0
    """Spaces dropped at the very beginning of a text (SentencePiece marks the first word with one)."""
    separator: bytes = b""
    """Put between tokens (plain word vocabularies)."""


def piece_rule(tokenizer: tokenizers.Tokenizer) -> PieceRule | None:
    """The rule of a tokenizer's decoder; None when it does not work piece by piece."""
    decoder = tokenizer.decoder
    if decoder is None:
        return PieceRule(str.encode, separator=b" ")
    state = json.loads(decoder.__getstate__())
    steps = state["decoders"] if state["type"] == "Sequence" else [state]
    kinds = [step["type"] for step in steps]
    if kinds == ["ByteLevel"]:
        return PieceRule(_byte_level())
    if set(kinds) <= {"Replace", "ByteFallback", "Fuse", "Strip", "Metaspace"}:
        return _sentencepiece(steps)
    return None


def _byte_level() -> Callable[[str], bytes]:
    alphabet = byte_alphabet()

    def to_bytes(token: str) -> bytes:
        try:
            return bytes([alphabet[char] for char in token])
        except KeyError:  # not written in the alphabet: it stands for itself
            return token.encode()

    return to_bytes


def _sentencepiece(steps: list[dict[str, Any]]) -> PieceRule | None:
    replacements: list[tuple[str, str]] = []
    byte_fallback, strip = False, 0
    for step in steps:
        match step:
            case {"type": "Replace", "pattern": {"String": old}, "content": new}:
                replacements.append((old, new))
            case {"type": "Metaspace", "replacement": mark, "prepend_scheme": scheme}:
                replacements.append((mark, " "))
                strip = 0 if scheme == "never" else 1
            case {"type": "ByteFallback"}:
                byte_fallback = True
            case {"type": "Strip", "content": " ", "start": start, "stop": 0}:
                strip = start
            case {"type": "Fuse"}:
                pass
            case _:
                return None

    def to_bytes(token: str) -> bytes:
        byte = _BYTE_TOKEN.fullmatch(token) if byte_fallback else None
        if byte:
            return bytes([int(byte[1], 16)])
        for old, new in replacements:
            token = token.replace(old, new)
        return token.encode()

    return PieceRule(to_bytes, strip_leading=strip)
