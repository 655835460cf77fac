"""Rebuilds a tokenizer from the vocabulary in a GGUF file.

Two kinds exist: ``gpt2`` is byte-level BPE with the merges listed; ``llama`` is SentencePiece BPE, where the merges
follow from the scores: any two neighbours whose concatenation is a piece may merge, highest score first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from sglang.formats.errors import FormatError
from sglang.formats.gguf import GGUFFile
from sglang.text.tokenizer_settings import TokenizerSettings

SPACE_MARK = "\u2581"
"""SentencePiece writes a space as this character."""


class TokenType(IntEnum):
    """Values of ``tokenizer.ggml.token_type``."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


# How text is cut into words before merging; the words of one family are the words of its original tokenizer.
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CL100K = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA3, _QWEN2 = _CL100K % "{1,3}", _CL100K % ""


@dataclass(frozen=True, slots=True)
class WordRule:
    """How a byte-level vocabulary cuts text into words."""

    pattern: str
    single_digits: bool = False
    """Every digit is a word of its own, before ``pattern`` is applied."""
    nfc: bool = False
    """Text is composed (NFC) first."""
    whole_words: bool = False
    """A word that is a token is taken as it is, even where the merges would cut it otherwise."""
    add_bos: bool = False
    """Whether prompts begin with BOS where the file does not say."""


_QWEN2_RULE = WordRule(_QWEN2, nfc=True)
_LLAMA3_RULE = WordRule(_LLAMA3, whole_words=True, add_bos=True)
_DIGITS_RULE = WordRule(_GPT2, single_digits=True)

WORD_RULES: dict[str, WordRule] = {
    "gpt-2": WordRule(_GPT2),
    "default": WordRule(_GPT2),
    "olmo": WordRule(_GPT2),
    "phi-2": WordRule(_GPT2),
    "smollm": _DIGITS_RULE,
    "starcoder": _DIGITS_RULE,
    "refact": _DIGITS_RULE,
    "command-r": _DIGITS_RULE,
    "qwen2": _QWEN2_RULE,
    "deepseek-r1-qwen": _QWEN2_RULE,
    "llama-bpe": _LLAMA3_RULE,
    "llama3": _LLAMA3_RULE,
    "llama-v3": _LLAMA3_RULE,
    "dbrx": WordRule(_LLAMA3),
    "tekken": WordRule(_TEKKEN, whole_words=True, add_bos=True),
}
"""``tokenizer.ggml.pre`` -> rule."""

_RULE_OF_OLD_FILES = {"qwen2": "qwen2", "qwen3": "qwen2"}
"""Architecture -> rule, for files from before the key existed."""

# Special tokens of Phi-3 swallow the white space that follows them, except these.
_PHI3_NOT_STRIPPING = frozenset({"<unk>", "<s>", "<|endoftext|>"})

_ROLE_KEYS = {
    "bos_token": "bos",
    "eos_token": "eos",
    "unk_token": "unknown",
    "sep_token": "seperator",  # spelled so in the format
    "pad_token": "padding",
    "mask_token": "mask",
}


def load_gguf_tokenizer(path: Path, *, decode_only: bool = False) -> tuple[Tokenizer, TokenizerSettings]:
    """Tokenizer and settings of a .gguf file; :class:`FormatError` names a missing or unknown key.

    With ``decode_only`` the merges are left out: the result can't encode, but loads faster.
    """
    file = GGUFFile(path)
    kind = file.require("tokenizer.ggml.model")
    builders = {"gpt2": _byte_level_bpe, "llama": _sentencepiece_bpe}
    if kind not in builders:
        raise FormatError(
            f"{path}: 'tokenizer.ggml.model' is {kind!r}, which is not supported. Supported: {', '.join(builders)}. "
            "Use the tokenizer of the original model: --tokenizer-path with its Hugging Face folder."
        )
    tokens: list[str] = file.require("tokenizer.ggml.tokens")
    types = file.metadata.get("tokenizer.ggml.token_type", np.full(len(tokens), TokenType.NORMAL))
    if len(types) != len(tokens):
        raise FormatError(
            f"{path}: 'tokenizer.ggml.token_type' has {len(types)} entries for {len(tokens)} tokens. Convert it again."
        )
    backend, add_bos = builders[kind](file, tokens, types, decode_only)
    _add_tokens(backend, file, tokens, types)
    return backend, _settings(file, tokens, add_bos)


def _settings(file: GGUFFile, tokens: Sequence[str], add_bos: bool) -> TokenizerSettings:
    roles = {}
    for role, name in _ROLE_KEYS.items():
        number = file.metadata.get(f"tokenizer.ggml.{name}_token_id")
        if number is not None and number < len(tokens):
            roles[role] = tokens[number]
    return TokenizerSettings(
        special_tokens=roles,
        chat_template=file.metadata.get("tokenizer.chat_template"),
        add_bos=bool(file.metadata.get("tokenizer.ggml.add_bos_token", add_bos)),
        add_eos=bool(file.metadata.get("tokenizer.ggml.add_eos_token", False)),
    )


def _vocabulary(tokens: Sequence[str]) -> dict[str, int]:
    """Text -> id; of equal texts the first counts."""
    return {text: number for number, text in reversed(list(enumerate(tokens)))}


def _byte_level_bpe(
    file: GGUFFile, tokens: Sequence[str], types: Iterable[int], decode_only: bool
) -> tuple[Tokenizer, bool]:
    old = _RULE_OF_OLD_FILES.get(str(file.metadata.get("general.architecture")), "default")
    name = file.metadata.get("tokenizer.ggml.pre", old)
    rule = WORD_RULES.get(name)
    if rule is None:
        raise FormatError(
            f"{file.path}: 'tokenizer.ggml.pre' is {name!r}, which is not known. Known: {', '.join(WORD_RULES)}. "
            "Use the tokenizer of the original model: --tokenizer-path with its Hugging Face folder."
        )
    listed = file.require("tokenizer.ggml.merges")
    merges = [] if decode_only else [_pair(file, merge) for merge in listed]
    backend = Tokenizer(_bpe(file, _vocabulary(tokens), merges, ignore_merges=rule.whole_words))
    if rule.nfc:
        backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = _words(rule)
    backend.decoder = decoders.ByteLevel()
    return backend, rule.add_bos


def _pair(file: GGUFFile, merge: str) -> tuple[str, str]:
    left, _, right = merge.partition(" ")
    if not right:
        raise FormatError(f"{file.path}: {merge!r} in 'tokenizer.ggml.merges' is no pair. The file is damaged.")
    return left, right


def _words(rule: WordRule) -> pre_tokenizers.PreTokenizer:
    steps: list[Any] = [pre_tokenizers.Digits(individual_digits=True)] if rule.single_digits else []
    if rule.pattern == _GPT2:  # built in, and faster than the same expression given from outside
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True))
    else:
        steps.append(pre_tokenizers.Split(Regex(rule.pattern), "isolated"))
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    return pre_tokenizers.Sequence(steps)


def _sentencepiece_bpe(
    file: GGUFFile, tokens: Sequence[str], types: Iterable[int], decode_only: bool
) -> tuple[Tokenizer, bool]:
    merges: list[tuple[str, str]] = []
    if not decode_only:
        scores = np.asarray(file.require("tokenizer.ggml.scores"))
        merges = _merges_from_scores(tokens, np.asarray(types), scores)
    unknown = file.metadata.get("tokenizer.ggml.unknown_token_id", 0)
    model = _bpe(file, _vocabulary(tokens), merges, unk_token=tokens[unknown], byte_fallback=True, fuse_unk=True)
    backend = Tokenizer(model)
    spaces = normalizers.Replace(" ", SPACE_MARK)
    steps = [decoders.Replace(SPACE_MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    if file.metadata.get("tokenizer.ggml.add_space_prefix", True):
        backend.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE_MARK), spaces])
        steps.append(decoders.Strip(" ", 1, 0))
    else:
        backend.normalizer = spaces
    backend.decoder = decoders.Sequence(steps)
    return backend, True


def _merges_from_scores(tokens: Sequence[str], types: Any, scores: Any) -> list[tuple[str, str]]:
    """All pairs of pieces that make a piece, best score of the result first."""
    normal = np.flatnonzero(types == TokenType.NORMAL)
    order = normal[np.argsort(-scores[normal], kind="stable")]
    ranked = [tokens[number] for number in order.tolist()]
    pieces = set(ranked)
    merges: list[tuple[str, str]] = []
    for piece in ranked:  # a quarter of a million pieces: the loop is kept bare
        for cut in range(1, len(piece)):
            left = piece[:cut]
            if left in pieces:
                right = piece[cut:]
                if right in pieces:
                    merges.append((left, right))
    return merges


def _bpe(file: GGUFFile, vocabulary: dict[str, int], merges: list[tuple[str, str]], **options: Any) -> models.BPE:
    try:
        return models.BPE(vocab=vocabulary, merges=merges, **options)
    except Exception as error:  # the library raises plain Exception
        raise FormatError(
            f"{file.path}: 'tokenizer.ggml.merges' does not fit 'tokenizer.ggml.tokens': {error}. Convert it again."
        ) from None


def _add_tokens(backend: Tokenizer, file: GGUFFile, tokens: Sequence[str], types: Iterable[int]) -> None:
    """Tokens that are recognised as a whole in any text: control tokens (special) and user-defined ones."""
    sentencepiece = file.metadata["tokenizer.ggml.model"] == "llama"
    strips = sentencepiece and file.metadata.get("general.architecture") == "phi3"
    special, plain = [], []
    for text, kind in zip(tokens, np.asarray(types).tolist(), strict=True):
        if kind in (TokenType.CONTROL, TokenType.UNKNOWN):
            rstrip = strips and text not in _PHI3_NOT_STRIPPING
            special.append(AddedToken(text, normalized=False, special=True, rstrip=rstrip))
        elif kind == TokenType.USER_DEFINED:
            plain.append(AddedToken(text, normalized=False, special=False))
    backend.add_special_tokens(special)
    backend.add_tokens(plain)
