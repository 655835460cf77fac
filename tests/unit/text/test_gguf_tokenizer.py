"""Tokenizers rebuilt from GGUF against ids that transformers 5.24 gives for the same files.

``expected_ids.json`` was written by ``AutoTokenizer.from_pretrained(folder, gguf_file=...)``; that conversion takes
half a minute a model, so its results are kept instead of run here. Where the ids differ on purpose, ``CORRECTED`` says
why.
"""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import pytest

from sglang.formats.errors import FormatError
from sglang.text.tokenizer import Tokenizer, load_tokenizer
from unit.text.samples import ALL

EXPECTED = json.loads(Path(__file__).with_name("expected_ids.json").read_text())
MODELS = ["smollm2_gguf", "qwen25_gguf", "gemma3_gguf"]

CORRECTED: dict[tuple[str, str], list[int]] = {
    # SmolLM2 cuts every numeral off, as its tokenizer.json says; the conversion forgets the step.
    ("smollm2_gguf", "½ ² Ⅷ"): [16738, 216, 19133, 216, 173, 223, 117],
    # Qwen2 composes text (NFC) first, as its tokenizer.json says; the conversion forgets the step.
    ("qwen25_gguf", "e\u0301 a\u0308 n\u0303"): [963, 12709, 1683, 109],
    # A prompt that brings its BOS does not get a second one.
    ("gemma3_gguf", "<bos>"): [2],
    ("gemma3_gguf", "<bos>Hello"): [2, 9259],
}


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> tuple[str, Tokenizer]:
    return request.param, load_tokenizer(request.getfixturevalue(request.param))


def test_ids_equal_transformers(model: tuple[str, Tokenizer]) -> None:
    name, tokenizer = model
    assert len(ALL) > 100
    for text, expected in zip(ALL, EXPECTED[name], strict=True):
        assert tokenizer.encode(text) == CORRECTED.get((name, text), expected), repr(text)


def test_a_batch_gives_the_ids_of_each_text(model: tuple[str, Tokenizer]) -> None:
    _, tokenizer = model
    assert tokenizer.encode_batch(ALL) == [tokenizer.encode(text) for text in ALL]


def test_decoding_gives_the_text_back(model: tuple[str, Tokenizer]) -> None:
    name, tokenizer = model
    for text in ALL:
        if (name, text[:1]) == ("qwen25_gguf", "e") or (name == "gemma3_gguf" and "\u2581" in text):
            continue  # SentencePiece writes spaces that way; Qwen composes
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(ids, skip_special_tokens=False) == text
        assert b"".join(tokenizer.token_bytes(number) for number in ids).decode() == text


def test_decode_only_decodes_the_same(smollm2_gguf: Path) -> None:
    full, light = load_tokenizer(smollm2_gguf), load_tokenizer(smollm2_gguf, decode_only=True)
    ids = list(range(full.vocab_size))
    assert light.decode(ids, skip_special_tokens=False) == full.decode(ids, skip_special_tokens=False)
    assert light.special_ids == full.special_ids


def test_special_tokens_by_role(smollm2_gguf: Path) -> None:
    tokenizer = load_tokenizer(smollm2_gguf)
    assert tokenizer.special_tokens["eos_token"] == "<|im_end|>"
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (1, 2)
    assert tokenizer.special_token_id("<|im_end|>") == 2
    assert tokenizer.special_token_id("The") is None
    assert tokenizer.special_ids == frozenset(range(17))
    assert tokenizer.vocab_size == 49152
    assert tokenizer.chat_template is not None and "add_generation_prompt" in tokenizer.chat_template


def write_vocabulary(path: Path, model: str, tokens: list[str], **keys: object) -> Path:
    """A GGUF file with one small tensor and this vocabulary."""
    writer = gguf.GGUFWriter(path, str(keys.pop("arch", "llama")))
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    for key, value in keys.items():
        name = f"tokenizer.ggml.{key}"
        if isinstance(value, list):
            writer.add_array(name, value)
        elif isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        else:
            writer.add_string(name, str(value))
    writer.add_tensor("token_embd.weight", np.zeros((len(tokens), 4), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


SPM_TOKENS = [
    "<unk>",
    "<s>",
    "</s>",
    *(f"<0x{n:02X}>" for n in range(256)),
    "\u2581",
    "a",
    "b",
    "ab",
    "\u2581a",
    "\u2581ab",
]
SPM_TYPES = [2, 3, 3, *[6] * 256, *[1] * 6]
SPM_SCORES = [0.0] * 259 + [-9.0, -8.0, -7.0, -2.0, -3.0, -1.0]


def spm(path: Path, **keys: object) -> Tokenizer:
    base = {"scores": SPM_SCORES, "token_type": SPM_TYPES, "bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0}
    return load_tokenizer(write_vocabulary(path / "m.gguf", "llama", SPM_TOKENS, **(base | keys)))


def test_sentencepiece_with_space_prefix(tmp_path: Path) -> None:
    """Spaces are marked, the first word gets one, also after a special token; byte tokens stand in for the rest."""
    tokenizer = spm(tmp_path)
    assert tokenizer.encode("ab") == [1, 264]  # <s>, space+ab: the best score wins over space+a, b
    assert tokenizer.encode("ab ab", False) == [264, 264]
    assert tokenizer.encode("<s>a", False) == [1, 263]
    assert tokenizer.encode("é", False) == [259, 3 + 0xC3, 3 + 0xA9]
    assert tokenizer.decode([264, 264]) == "ab ab"  # the marker of the first word is no text
    assert tokenizer.decode([1, 264], skip_special_tokens=False) == "<s> ab"
    assert tokenizer.token_text(264) == " ab"
    assert tokenizer.token_bytes(3 + 0xC3) == b"\xc3"


def test_sentencepiece_without_space_prefix(tmp_path: Path) -> None:
    tokenizer = spm(tmp_path, add_space_prefix=False, add_bos_token=False, add_eos_token=True)
    assert tokenizer.encode("ab") == [262, 2]
    assert tokenizer.decode([264, 264]) == " ab ab"


def test_special_tokens_of_phi3_swallow_white_space(tmp_path: Path) -> None:
    tokenizer = spm(tmp_path, arch="phi3", add_space_prefix=False, add_bos_token=False)
    assert tokenizer.encode("</s>\n a") == [2, 260]
    assert tokenizer.encode("<s> a") == [1, 263]


LETTERS = ["a", "b", "ab", "Ġ", "Ġa", "abb", "1", "11"]


@pytest.mark.parametrize(
    ("pre", "text", "ids"),
    [
        ("gpt-2", "abb", [2, 1]),  # no merge makes "abb"
        ("llama-bpe", "abb", [5]),  # a whole word that is a token is taken as it is
        ("gpt-2", "11", [7]),
        ("smollm", "11", [6, 6]),
        ("qwen2", "11", [6, 6]),
        ("llama-bpe", "11", [7]),
        ("tekken", "11", [6, 6]),
    ],
)
def test_words_are_cut_as_the_family_does(tmp_path: Path, pre: str, text: str, ids: list[int]) -> None:
    merges = ["a b", "Ġ a", "1 1"]
    path = write_vocabulary(tmp_path / "m.gguf", "gpt2", LETTERS, merges=merges, pre=pre, bos_token_id=0)
    assert load_tokenizer(path).encode(text, add_special_tokens=False) == ids


def test_llama3_files_add_bos_unless_they_say_otherwise(tmp_path: Path) -> None:
    keys = {"merges": ["a b"], "pre": "llama-bpe", "bos_token_id": 5}
    assert load_tokenizer(write_vocabulary(tmp_path / "a.gguf", "gpt2", LETTERS, **keys)).encode("a") == [5, 0]
    keys["add_bos_token"] = False
    assert load_tokenizer(write_vocabulary(tmp_path / "b.gguf", "gpt2", LETTERS, **keys)).encode("a") == [0]


@pytest.mark.parametrize(
    ("model", "keys", "message"),
    [
        ("gpt2", {"pre": "gpt-2"}, r"tokenizer\.ggml\.merges.*missing"),
        ("gpt2", {"pre": "unheard-of", "merges": ["a b"]}, r"tokenizer\.ggml\.pre.*unheard-of.*smollm"),
        ("gpt2", {"merges": ["a zzz"]}, r"tokenizer\.ggml\.merges.*does not fit"),
        ("gpt2", {"merges": ["ab"]}, r"'ab' in 'tokenizer\.ggml\.merges' is no pair"),
        ("llama", {}, r"tokenizer\.ggml\.scores.*missing"),
        ("t5", {}, r"tokenizer\.ggml\.model.*'t5'.*gpt2, llama"),
        ("llama", {"token_type": [1]}, r"token_type.*1 entries for 8 tokens"),
    ],
)
def test_missing_or_unknown_vocabulary_parts_are_named(tmp_path: Path, model: str, keys: dict, message: str) -> None:
    path = write_vocabulary(tmp_path / "m.gguf", model, LETTERS, **keys)
    with pytest.raises(FormatError, match=message):
        load_tokenizer(path)
