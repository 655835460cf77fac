"""Token ids to text while they arrive: what is emitted is final, and is emitted as soon as it is.

Only bytes that may still become a character wait (at most three). The pieces pushed out, joined, are exactly
``tokenizer.decode`` of all ids.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from sglang.text.pieces import PieceRule
from sglang.text.tokenizer import Tokenizer

REPLACEMENT = "\ufffd"
MAX_UNFINISHED = 4
"""Tokens that may wait for the rest of a character: UTF-8 has four bytes at most."""


class IncrementalDecoder:
    """The growing text of one request.

    ``continues``: the ids continue a text, so a SentencePiece vocabulary's space before their first word is kept
    (``decode`` drops it at the beginning of a text). ``spaces_between_special_tokens`` has no effect, as in
    :meth:`Tokenizer.decode`.
    """

    __slots__ = ("_decoder",)

    def __init__(
        self,
        tokenizer: Tokenizer,
        skip_special_tokens: bool = True,
        spaces_between_special_tokens: bool = True,
        *,
        continues: bool = False,
    ) -> None:
        rule = tokenizer.piece_rule
        self._decoder: _ByPieces | _ByWindow
        if rule is None:
            self._decoder = _ByWindow(tokenizer, skip_special_tokens)
        else:
            self._decoder = _ByPieces(tokenizer, rule, skip_special_tokens, continues)

    def push(self, ids: Sequence[int]) -> str:
        """The text that is certain now; empty while a character is unfinished."""
        return self._decoder.push(ids)

    def flush(self) -> str:
        """The rest, once no id follows: U+FFFD where a character was left unfinished."""
        return self._decoder.flush()


class _ByPieces:
    """Joins the bytes of the tokens and decodes them incrementally. Constant cost a token."""

    __slots__ = ("_separator", "_skip_special", "_started", "_strip", "_tokenizer", "_utf8", "_whole")

    def __init__(self, tokenizer: Tokenizer, rule: PieceRule, skip_special: bool, continues: bool) -> None:
        self._tokenizer = tokenizer
        self._skip_special = skip_special
        self._separator = rule.separator
        self._strip = 0 if continues else rule.strip_leading
        self._started = False
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._whole = not self._separator and not self._strip
        """Whether the text ends with a whole character, so that most tokens simply add their own text."""

    def push(self, ids: Sequence[int]) -> str:
        if self._whole and len(ids) == 1:
            text = self._tokenizer.whole_text(ids[0], self._skip_special)
            if text is not None:
                return text
        return self._join(ids)

    def _join(self, ids: Sequence[int]) -> str:
        pieces = self._tokenizer.pieces(ids, self._skip_special)
        if not pieces:
            return ""
        data = self._separator.join(pieces)
        if self._separator and self._started:
            data = self._separator + data
        self._started = True
        text = self._stripped(self._utf8.decode(data))
        self._whole = not self._separator and not self._strip and not self._utf8.getstate()[0]
        return text

    def flush(self) -> str:
        return self._stripped(self._utf8.decode(b"", True))

    def _stripped(self, text: str) -> str:
        while self._strip and text:
            if text[0] != " ":
                self._strip = 0
                break
            text = text[1:]
            self._strip -= 1
        return text


class _ByWindow:
    """For decoders that look at neighbours: decodes the last few tokens with and without the new ones.

    Exact as long as a decoder does not change text that it has already given.
    """

    __slots__ = ("_ids", "_read", "_skip_special", "_tokenizer")

    def __init__(self, tokenizer: Tokenizer, skip_special: bool) -> None:
        self._tokenizer = tokenizer
        self._skip_special = skip_special
        self._ids: list[int] = []  # from the last emitted step on
        self._read = 0  # of these, how many are emitted

    def push(self, ids: Sequence[int]) -> str:
        return "".join(self._step(number) for number in ids)

    def _step(self, number: int) -> str:
        self._ids.append(number)
        text = self._new_text()
        if not text or (text.endswith(REPLACEMENT) and len(self._ids) - self._read < MAX_UNFINISHED):
            return ""
        self._ids = self._ids[self._read :]
        self._read = len(self._ids)
        return text

    def flush(self) -> str:
        text = self._new_text()
        self._read = len(self._ids)
        return text

    def _new_text(self) -> str:
        before = self._tokenizer.decode(self._ids[: self._read], self._skip_special)
        return self._tokenizer.decode(self._ids, self._skip_special)[len(before) :]
