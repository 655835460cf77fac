"""Tokenizers from Hugging Face folders, and what every tokenizer does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from sglang.formats.errors import FormatError
from sglang.ipc.errors import InvalidRequest
from sglang.text.tokenizer import load_tokenizer
from unit.text.samples import ALL


def write_folder(path: Path, *, bos: bool = False, files: dict[str, Any] | None = None, **config: Any) -> Path:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {char: number for number, char in enumerate([*alphabet, "he", "ll", "hell", "<s>", "</s>", "<extra>"])}
    backend = Backend(models.BPE(vocab=vocabulary, merges=[("h", "e"), ("l", "l"), ("he", "ll")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<s>", "</s>"])
    if bos:
        backend.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>",
            special_tokens=[("<s>", backend.token_to_id("<s>")), ("</s>", backend.token_to_id("</s>"))],
        )
    backend.enable_truncation(3)
    backend.enable_padding(length=8)
    path.mkdir(parents=True, exist_ok=True)
    backend.save(str(path / "tokenizer.json"))
    base = {"bos_token": "<s>", "eos_token": {"__type": "AddedToken", "content": "</s>", "special": True}}
    (path / "tokenizer_config.json").write_text(json.dumps(base | config))
    for name, content in (files or {}).items():
        (path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_ids_and_text_equal_transformers(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    ours, theirs = load_tokenizer(folder), PreTrainedTokenizerFast.from_pretrained(str(folder))
    for text in ALL:
        ids = theirs(text, truncation=False, padding=False)["input_ids"]
        assert ours.encode(text) == ids
        for skip in (True, False):
            assert ours.decode(ids, skip) == theirs.decode(
                ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False
            )


def test_bos_is_never_doubled(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(write_folder(tmp_path, bos=True))
    bos, eos = tokenizer.bos_token_id, tokenizer.eos_token_id
    hell = tokenizer.encode("hell", add_special_tokens=False)
    assert len(hell) == 1
    assert tokenizer.encode("hell") == [bos, *hell, eos]
    assert tokenizer.encode("<s>hell") == [bos, *hell, eos]
    assert tokenizer.encode("<s>hell", add_special_tokens=False) == [bos, *hell]
    assert tokenizer.encode("") == [bos, eos]
    assert tokenizer.encode_batch(["hell", "<s>"]) == [[bos, *hell, eos], [bos, eos]]


@pytest.mark.parametrize(("add_bos", "first"), [(True, 1), (False, 0)])
def test_llama_classes_apply_the_flags_of_their_config(tmp_path: Path, add_bos: bool, first: int) -> None:
    folder = write_folder(
        tmp_path, bos=not add_bos, tokenizer_class="LlamaTokenizerFast", add_bos_token=add_bos, add_eos_token=False
    )
    tokenizer = load_tokenizer(folder)
    assert tokenizer.encode("hell") == [tokenizer.bos_token_id] * first + tokenizer.encode(
        "hell", add_special_tokens=False
    )


def test_tokens_only_the_config_knows(tmp_path: Path) -> None:
    added = {"261": {"content": "<extra>", "special": False}, "262": {"content": "<new>", "special": True}}
    folder = write_folder(
        tmp_path, added_tokens_decoder=added, pad_token="<pad>", extra_special_tokens={"image_token": "<i>"}
    )
    tokenizer = load_tokenizer(folder)
    assert tokenizer.special_tokens == {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "image_token": "<i>",
    }
    assert tokenizer.special_token_id("<extra>") == 261 and 261 not in tokenizer.special_ids
    assert tokenizer.special_token_id("<new>") == 262 and 262 in tokenizer.special_ids
    assert tokenizer.decode(tokenizer.encode("a<extra><new><pad>b")) == "a<extra>b"


def test_half_a_surrogate_pair_is_a_bad_request(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(write_folder(tmp_path))
    for call in (lambda: tokenizer.encode("ab\ud83d"), lambda: tokenizer.encode_batch(["ok", "\udc00"])):
        with pytest.raises(InvalidRequest, match=r"position [02].*surrogate") as caught:
            call()
        assert caught.value.field == "text"
    assert tokenizer.decode(tokenizer.encode("\U0001f642\0")) == "\U0001f642\0"


def test_tokens_one_by_one(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(write_folder(tmp_path))
    ids = tokenizer.encode("é</s>")
    assert [tokenizer.token_bytes(number) for number in ids] == [b"\xc3", b"\xa9", b"</s>"]
    assert [tokenizer.token_text(number) for number in ids] == ["\ufffd", "\ufffd", "</s>"]
    assert tokenizer.vocab_size == 262
    for outside in (-1, 262, 10**6, 2**40):
        assert tokenizer.token_bytes(outside) == b"" and tokenizer.decode([outside]) == ""


@pytest.mark.parametrize(
    ("config", "files", "expected"),
    [
        ({}, {}, None),
        ({"chat_template": "one"}, {}, "one"),
        ({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]}, {}, "d"),
        ({"chat_template": [{"name": "rag", "template": "r"}]}, {}, "r"),
        ({"chat_template": "one"}, {"chat_template.json": {"chat_template": "two"}}, "two"),
        ({"chat_template": "one"}, {"chat_template.jinja": "three é"}, "three é"),
    ],
)
def test_where_the_chat_template_is_found(tmp_path: Path, config: dict, files: dict, expected: str | None) -> None:
    assert load_tokenizer(write_folder(tmp_path, files=files, **config)).chat_template == expected


def test_damaged_folders_name_the_file(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    (folder / "tokenizer_config.json").write_text("{")
    with pytest.raises(FormatError, match=r"tokenizer_config\.json: not valid JSON"):
        load_tokenizer(folder)
    folder = write_folder(tmp_path)
    (folder / "tokenizer.json").write_text('{"model": 3}')
    with pytest.raises(FormatError, match=r"tokenizer\.json: can't be read"):
        load_tokenizer(folder)
