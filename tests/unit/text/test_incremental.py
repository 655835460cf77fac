"""Incremental decoding: nothing lost, nothing doubled, nothing half, nothing late."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from sglang.text.incremental import IncrementalDecoder
from sglang.text.tokenizer import Tokenizer, load_tokenizer
from unit.text.samples import ALL


def byte_level() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Backend(
        models.BPE(vocab={char: number for number, char in enumerate([*alphabet, "Ġthe", "Ã©"])}, merges=[])
    )
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken("<|end|>"), AddedToken("<é ü>")])
    backend.add_tokens([AddedToken("<tool>", special=False)])
    return Tokenizer(backend)


def sentencepiece(strip: int) -> Tokenizer:
    words = [
        "<unk>",
        *(f"<0x{n:02X}>" for n in range(256)),
        "\u2581",
        "\u2581\u2581",
        "a",
        "\u2581b",
        "é",
        "漢",
        "\u2581字\u2581",
    ]
    backend = Backend(
        models.BPE(vocab={word: n for n, word in enumerate(words)}, merges=[], unk_token="<unk>", byte_fallback=True)
    )
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    backend.decoder = decoders.Sequence([*steps, decoders.Strip(" ", strip, 0)] if strip else steps)
    backend.add_special_tokens(["<s>", "</s>"])
    return Tokenizer(backend)


def words() -> Tokenizer:
    return Tokenizer(Backend(models.WordLevel({"one": 0, "two": 1, "three": 2}, unk_token="one")))


def metaspace() -> Tokenizer:
    backend = Backend(models.BPE(vocab={"\u2581": 0, "\u2581a": 1, "b": 2}, merges=[]))
    backend.decoder = decoders.Metaspace()
    return Tokenizer(backend)


TOKENIZERS = {
    "byte-level": byte_level(), "spm": sentencepiece(0), "spm-strip": sentencepiece(1), "spm-strip-2": sentencepiece(2),
    "words": words(), "metaspace": metaspace(),
}  # fmt: skip


@pytest.mark.parametrize("kind", TOKENIZERS)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_pushes_and_flush_join_to_decode(kind: str, data: st.DataObject) -> None:
    tokenizer = TOKENIZERS[kind]
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size + 2), max_size=40))
    skip = data.draw(st.booleans())
    decoder = IncrementalDecoder(tokenizer, skip)
    out, rest = "", list(ids)
    while rest:
        size = data.draw(st.integers(1, 5))
        out += decoder.push(rest[:size])
        rest = rest[size:]
    assert out + decoder.flush() == tokenizer.decode(ids, skip)


@pytest.mark.parametrize("kind", ["byte-level", "spm"])
@given(text=st.text(max_size=30))
@settings(max_examples=150, deadline=None)
def test_every_character_comes_with_its_last_byte(kind: str, text: str) -> None:
    """Byte by byte: a character is emitted with its last byte, not before and not after."""
    tokenizer = TOKENIZERS[kind]
    by_bytes = {tokenizer.token_bytes(n): n for n in reversed(range(tokenizer.vocab_size))}
    decoder = IncrementalDecoder(tokenizer)
    for char in text:
        raw = [bytes([byte]) for byte in char.encode()]
        pushed = [decoder.push([by_bytes[byte]]) for byte in raw]
        assert pushed == [""] * (len(raw) - 1) + [char]
    assert decoder.flush() == ""


def test_an_unfinished_character_is_replaced_only_at_the_end() -> None:
    tokenizer = TOKENIZERS["spm"]
    decoder = IncrementalDecoder(tokenizer)
    assert decoder.push([1 + 0xF0]) == ""
    assert decoder.push([1 + 0x9F]) == ""
    assert decoder.flush() == "\ufffd"
    decoder = IncrementalDecoder(tokenizer)
    assert decoder.push([1 + 0xF0, 1 + ord("x")]) == "\ufffdx"  # can't become a character any more


def test_the_space_of_the_first_word() -> None:
    tokenizer = TOKENIZERS["spm-strip"]
    b = tokenizer._backend.token_to_id("\u2581b")
    decoder = IncrementalDecoder(tokenizer)
    assert decoder.push([b]) + decoder.push([b]) == "b b" == tokenizer.decode([b, b])
    decoder = IncrementalDecoder(tokenizer, continues=True)
    assert decoder.push([b]) + decoder.push([b]) == " b b"


def test_special_tokens_are_skipped_on_request_only() -> None:
    tokenizer = TOKENIZERS["byte-level"]
    ids = [tokenizer.special_token_id(text) for text in ("<|end|>", "<tool>", "<é ü>")]
    assert IncrementalDecoder(tokenizer, True).push(ids) == "<tool>"  # added, but not special
    assert IncrementalDecoder(tokenizer, False).push(ids) == "<|end|><tool><é ü>"


def test_a_decoder_that_looks_at_neighbours() -> None:
    vocabulary = {"[UNK]": 0, "un": 1, "##happi": 2, "##ness": 3, "is": 4}
    backend = Backend(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.decoder = decoders.WordPiece(cleanup=False)
    tokenizer = Tokenizer(backend)
    assert tokenizer.piece_rule is None
    decoder = IncrementalDecoder(tokenizer)
    assert [decoder.push([n]) for n in (1, 2, 3, 4)] == ["un", "happi", "ness", " is"]
    assert decoder.flush() == ""


@pytest.mark.parametrize("model", ["smollm2_gguf", "gemma3_gguf"])
def test_real_vocabularies_stream_text_unchanged(model: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(model)
    tokenizer = load_tokenizer(path)
    for text in ALL:
        if "\u2581" in text:
            continue
        decoder = IncrementalDecoder(tokenizer, skip_special_tokens=False)
        pushed = [decoder.push([number]) for number in tokenizer.encode(text, add_special_tokens=False)]
        assert "".join(pushed) == text
        assert text == "\ufffd" or not any("\ufffd" in piece for piece in pushed)
