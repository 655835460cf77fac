"""A small vocabulary: every byte, some longer tokens, two end tokens and a control token."""

from __future__ import annotations

import pytest

from sglang.grammar.backend import Backend
from sglang.grammar.libraries import make_backend
from sglang.grammar.spec import GrammarOptions
from sglang.grammar.vocabulary import Vocabulary

EOS, OTHER_EOS, CONTROL = 0, 1, 2
FIRST_BYTE = 3
PIECES = [
    b'{"', b'"}', b'":', b'": ', b'", "', b"true", b"false", b"null", b"12", b"00", b"-1", b"[", b"]]", b"  ", b"\n\n",
    b"ab", b"abc", b"hello", b" world", "é".encode(), "漢".encode(), "🦙".encode()[:2], b"</", b"<f", b"name", b"kind",
]  # fmt: skip


def token_of(data: bytes) -> int:
    """The id of a token with these bytes."""
    return FIRST_BYTE + data[0] if len(data) == 1 else FIRST_BYTE + 256 + PIECES.index(data)


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    tokens = [b"", b"", b"", *(bytes([byte]) for byte in range(256)), *PIECES]
    return Vocabulary(tokens=tokens, special_ids=[EOS, OTHER_EOS, CONTROL], eos_ids=[EOS, OTHER_EOS])


@pytest.fixture(scope="session")
def backends(vocabulary: Vocabulary) -> dict[str, Backend]:
    return {name: make_backend(name, vocabulary, GrammarOptions()) for name in ("xgrammar", "llguidance")}
