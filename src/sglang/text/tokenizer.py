"""The tokenizer of a model: text to ids and back. Loaded from a Hugging Face folder or a GGUF file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import tokenizers

from sglang.ipc.errors import InvalidRequest
from sglang.text.folder_tokenizer import load_folder_tokenizer
from sglang.text.gguf_tokenizer import load_gguf_tokenizer
from sglang.text.pieces import PieceRule, piece_rule
from sglang.text.tokenizer_settings import TokenizerSettings


class Tokenizer:
    """One model's tokenizer.

    Decoding joins the bytes of the tokens and replaces what is not UTF-8 by U+FFFD; there is no clean-up of spaces
    before punctuation. Ids outside the vocabulary (padding rows of the embedding) have no text.
    """

    def __init__(self, backend: tokenizers.Tokenizer, settings: TokenizerSettings | None = None) -> None:
        settings = settings or TokenizerSettings()
        self._backend = backend
        self.special_tokens = settings.special_tokens
        self.chat_template = settings.chat_template
        self.vocab_size = backend.get_vocab_size(with_added_tokens=True)
        self.bos_token_id = self._role_id("bos_token")
        self.eos_token_id = self._role_id("eos_token")
        added = backend.get_added_tokens_decoder()
        self.special_ids = frozenset(number for number, token in added.items() if token.special)
        self._added = {token.content: number for number, token in added.items()}
        self._rule = piece_rule(backend)
        # Added tokens stand for their own text, even where the vocabulary is written in another alphabet.
        self._pieces = {number: token.content.encode() for number, token in added.items()}
        self._texts: dict[int, str] = {}  # of tokens that were seen and are whole characters
        self._prefix, self._suffix = self._frame(settings)

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Token ids. A text that already begins with the BOS text does not get a second one."""
        return self.encode_batch([text], add_special_tokens)[0]

    def encode_batch(self, texts: Sequence[str], add_special_tokens: bool = True) -> list[list[int]]:
        for text in texts:
            _check_unicode(text)
        encodings = self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
        if add_special_tokens and (self._prefix or self._suffix):
            return [self._framed(encoding.ids) for encoding in encodings]
        return [encoding.ids for encoding in encodings]

    def decode(
        self, ids: Sequence[int], skip_special_tokens: bool = True, spaces_between_special_tokens: bool = True
    ) -> str:
        """The text of ``ids``.

        ``spaces_between_special_tokens`` is accepted for compatibility; it never had an effect on vocabularies of
        this kind.
        """
        if self._rule is None:
            return self._backend.decode(self._known(ids), skip_special_tokens=skip_special_tokens)
        pieces = self.pieces(ids, skip_special_tokens)
        text = self._rule.separator.join(pieces).decode("utf-8", "replace")
        for _ in range(self._rule.strip_leading):
            text = text.removeprefix(" ")
        return text

    def token_text(self, token_id: int) -> str:
        """The text of one token in the middle of a text, special tokens included."""
        if self._rule is None:
            return self.decode([token_id], skip_special_tokens=False)
        return self.token_bytes(token_id).decode("utf-8", "replace")

    def token_bytes(self, token_id: int) -> bytes:
        """What the token adds to the text, byte for byte; half a character where the token is half a character."""
        piece = self._pieces.get(token_id)
        if piece is None:
            piece = self._pieces[token_id] = self._make_piece(token_id)
        return piece

    def whole_text(self, token_id: int, skip_special_tokens: bool) -> str | None:
        """What the token adds to a text that ends with a whole character; None where only its neighbours can tell."""
        text = self._texts.get(token_id)
        if text is None:
            try:
                text = self.token_bytes(token_id).decode()
            except UnicodeDecodeError:
                return None
            self._texts[token_id] = text
        return "" if skip_special_tokens and token_id in self.special_ids else text

    def pieces(self, ids: Iterable[int], skip_special_tokens: bool) -> list[bytes]:
        """:meth:`token_bytes` of each id that has text."""
        known, special = self._pieces, self.special_ids
        if skip_special_tokens:
            ids = [number for number in ids if number not in special]
        found = [known[number] if number in known else self.token_bytes(number) for number in ids]
        return [piece for piece in found if piece] if b"" in found else found

    @property
    def piece_rule(self) -> PieceRule | None:
        """How pieces become text; None when this vocabulary can't be decoded piece by piece."""
        return self._rule

    def special_token_id(self, text: str) -> int | None:
        """The id of a special or added token with exactly this text."""
        return self._added.get(text)

    def _known(self, ids: Iterable[int]) -> list[int]:
        return [number for number in ids if 0 <= number < 1 << 32]

    def _make_piece(self, token_id: int) -> bytes:
        token = self._backend.id_to_token(token_id) if 0 <= token_id < 1 << 32 else None
        if token is None:
            return b""
        return self._rule.to_bytes(token) if self._rule else token.encode()

    def _role_id(self, role: str) -> int | None:
        text = self.special_tokens.get(role)
        return None if text is None else self._backend.token_to_id(text)

    def _framed(self, ids: list[int]) -> list[int]:
        doubled = bool(self._prefix) and ids[: len(self._prefix)] == self._prefix
        return ids + self._suffix if doubled else self._prefix + ids + self._suffix

    def _frame(self, settings: TokenizerSettings) -> tuple[list[int], list[int]]:
        """Ids put before and after every text, found by watching the post-processor at work."""
        bare = self._backend.encode("a", add_special_tokens=False).ids
        full = self._backend.encode("a", add_special_tokens=True).ids
        at = next((at for at in range(len(full)) if full[at : at + len(bare)] == bare), len(full))
        prefix, suffix = full[:at], full[at + len(bare) :]
        if settings.add_bos is not None:
            prefix = [self.bos_token_id] if settings.add_bos and self.bos_token_id is not None else []
        if settings.add_eos is not None:
            suffix = [self.eos_token_id] if settings.add_eos and self.eos_token_id is not None else []
        return prefix, suffix


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            f"text: the character at position {error.start} is half of a surrogate pair ({text[error.start]!a}), "
            "which is not valid Unicode; send the whole character",
            "text",
        ) from None


def load_tokenizer(path: Path, *, decode_only: bool = False) -> Tokenizer:
    """The tokenizer of a Hugging Face folder or a .gguf file. Raises ``FormatError`` naming what is missing.

    ``decode_only``: the caller never encodes, which lets a GGUF vocabulary load in half the time.
    """
    path = Path(path)
    if path.is_file():
        return Tokenizer(*load_gguf_tokenizer(path, decode_only=decode_only))
    return Tokenizer(*load_folder_tokenizer(path))
