"""The GGUF reader: what it reads, and what it says about files that can't be read."""

from __future__ import annotations

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest

from sglang.formats.errors import FormatError
from sglang.formats.ggml_types import GGMLType
from sglang.formats.gguf import GGUFFile
from unit.formats.gguf_files import raw_gguf, string_key, tensor_entry, text, write_gguf

GOOD = raw_gguf([string_key("general.architecture", "llama")], [tensor_entry("w", [4, 2], 0)], bytes(32))


def opened(tmp_path: Path, content: bytes) -> GGUFFile:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    return GGUFFile(path)


def test_metadata_and_tensors(tmp_path: Path) -> None:
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    metadata = {
        "a.int": 7, "a.float": 0.5, "a.flag": True, "a.text": "héllo", "a.strings": ["x", "", "\u2581y"],
        "a.ints": [1, 2, 3], "a.floats": [0.25, -1.0],
    }  # fmt: skip
    path = write_gguf(tmp_path / "m.gguf", "llama", metadata, {"w": weights, "half": weights.astype(np.float16)})
    file = GGUFFile(path)
    assert file.metadata["general.architecture"] == "llama"
    for key, value in metadata.items():
        actual = file.metadata[key]
        assert (actual.tolist() if isinstance(actual, np.ndarray) else actual) == value
    tensor = file.tensors["w"]
    assert (tensor.name, tensor.shape, tensor.ggml_type) == ("w", (3, 4), GGMLType.F32)
    assert tensor.data.dtype == np.uint8 and tensor.data.shape == (48,) and not tensor.data.flags.writeable
    np.testing.assert_array_equal(tensor.dequantize(), weights)
    np.testing.assert_array_equal(file.tensors["half"].dequantize(), weights)


def test_a_real_file_reads_as_the_gguf_package_reads_it(smollm2_gguf: Path) -> None:
    file = GGUFFile(smollm2_gguf)
    assert len(file.tensors) == 272
    assert len(file.metadata["tokenizer.ggml.tokens"]) == 49152
    assert file.metadata["tokenizer.ggml.merges"][:2] == ["Ġ t", "Ġ a"]
    reader = gguf.GGUFReader(smollm2_gguf)
    for theirs in reader.tensors[:12]:
        ours = file.tensors[theirs.name]
        assert ours.shape == tuple(theirs.shape.tolist()[::-1])
        assert int(ours.ggml_type) == int(theirs.tensor_type)
        np.testing.assert_array_equal(ours.dequantize(), gguf.quants.dequantize(theirs.data, theirs.tensor_type))


def test_version_2_and_own_alignment(tmp_path: Path) -> None:
    assert opened(tmp_path, raw_gguf([], [tensor_entry("w", [4], 0)], bytes(16), version=2)).tensors["w"].shape == (4,)
    alignment = text("general.alignment") + struct.pack("<II", 4, 64)
    content = b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + alignment + tensor_entry("w", [2], 0)
    content += b"\0" * (-len(content) % 64) + np.array([3.0, 4.0], "<f4").tobytes()
    assert opened(tmp_path, content).tensors["w"].dequantize().tolist() == [3.0, 4.0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "file is empty"),
        (b"GGU", "not a GGUF file"),
        (b"<html>not found</html>", r"not a GGUF file.*<htm.*error page"),
        (b"GGUF\x03", r"ends at byte 5.*'header' \(offset 4\)"),
        (GOOD[:4] + b"\0\0\0\x03" + GOOD[8:], r"big-endian.*offset 4"),
        (GOOD[:4] + b"\x01\0\0\0" + GOOD[8:], r"version 1.*only 2 and 3"),
        (GOOD[:4] + b"\x09\0\0\0" + GOOD[8:], r"version 9.*only 2 and 3"),
        (GOOD[:60], "'general.architecture'.*truncated"),
        (GOOD[:-1], r"tensor 'w' reaches to byte \d+\. It is truncated"),
        (raw_gguf([string_key("a", "b")], []), "holds no tensors"),
        (raw_gguf([text("k") + struct.pack("<I", 77)], []), r"'k' has the unknown value type 77"),
        (raw_gguf([text("k") + struct.pack("<IIQ", 9, 8, 1 << 60)], []), "in the middle of 'k'"),
        (raw_gguf([text("k") + struct.pack("<IIQ", 9, 4, 1 << 60)], []), "in the middle of 'k'"),
        (raw_gguf([text("k") + struct.pack("<IQ", 8, 2) + b"\xff\xff"], []), "'k'.*not valid UTF-8"),
        (raw_gguf([], [tensor_entry("w", [32], 20)], bytes(18)), r"'w' has the unsupported type IQ4_NL.*Q4_K"),
        (raw_gguf([], [tensor_entry("w", [33], 2)], bytes(64)), r"'w' has rows of 33.*Q4_0.*32"),
        (raw_gguf([], [tensor_entry("w", [1] * 9, 0)], bytes(64)), r"'w' has 9 dimensions"),
    ],
)  # fmt: skip
def test_damaged_files_say_what_and_where(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        opened(tmp_path, content)


@pytest.mark.parametrize("size", range(4, len(GOOD)))
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, size: int) -> None:
    with pytest.raises(FormatError):
        opened(tmp_path, GOOD[:size])


def test_a_missing_file_and_a_missing_key(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no such file"):
        GGUFFile(tmp_path / "none.gguf")
    with pytest.raises(FormatError, match=r"'llama\.block_count' is missing"):
        opened(tmp_path, GOOD).require("llama.block_count")


def test_parts_of_a_split_model_are_one(tmp_path: Path) -> None:
    one = np.ones((2, 4), np.float32)
    write_gguf(tmp_path / "m-00001-of-00002.gguf", "llama", {"x": 1, "split.tensors.count": 2}, {"a": one})
    with pytest.raises(FormatError, match=r"missing m-00002-of-00002\.gguf"):
        GGUFFile(tmp_path / "m-00001-of-00002.gguf")
    write_gguf(tmp_path / "m-00002-of-00002.gguf", "llama", {"x": 2}, {"b": 2 * one})
    for name in ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf"):
        file = GGUFFile(tmp_path / name)
        assert sorted(file.tensors) == ["a", "b"]
        assert file.metadata["x"] == 1
        assert file.tensors["b"].dequantize().sum() == 16
    write_gguf(tmp_path / "m-00002-of-00002.gguf", "llama", {}, {"a": one})
    with pytest.raises(FormatError, match="'a' is already in an earlier part"):
        GGUFFile(tmp_path / "m-00001-of-00002.gguf")
    write_gguf(tmp_path / "m-00002-of-00002.gguf", "llama", {}, {"b": one, "c": one})
    with pytest.raises(FormatError, match=r"says 2 tensors, the parts hold 3"):
        GGUFFile(tmp_path / "m-00001-of-00002.gguf")
