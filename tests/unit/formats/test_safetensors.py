"""Folders of safetensors files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from sglang.formats.errors import FormatError
from sglang.formats.safetensors import SafetensorsFolder, read_header

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.arange(4, dtype=np.float16)


def sharded(path: Path) -> dict[str, str]:
    save_file({"a": A}, path / "model-1.safetensors")
    save_file({"b": B}, path / "model-2.safetensors")
    return {"a": "model-1.safetensors", "b": "model-2.safetensors"}


def write_index(path: Path, weight_map: object) -> None:
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


def test_a_single_file(tmp_path: Path) -> None:
    save_file({"a": A, "b": B, "none": np.zeros((0, 3), np.float32)}, tmp_path / "model.safetensors", {"format": "pt"})
    folder = SafetensorsFolder(tmp_path)
    entry = folder.entries["a"]
    assert (entry.shape, entry.dtype, entry.nbytes, entry.file) == ((2, 3), "F32", 24, tmp_path / "model.safetensors")
    assert sorted(folder.entries) == ["a", "b", "none"]
    np.testing.assert_array_equal(folder.read("a"), A)
    np.testing.assert_array_equal(folder.read("b"), B)
    assert folder.read("none").shape == (0, 3)
    with pytest.raises(FormatError, match=r"no tensor 'c' \(of 3\)"):
        folder.read("c")


def test_bfloat16_is_widened(tmp_path: Path) -> None:
    header = json.dumps({"w": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    data = np.array([0x3F80, 0xC000], "<u2").tobytes()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
    assert SafetensorsFolder(tmp_path).read("w").tolist() == [1.0, -2.0]


def test_sharded_with_index_reads_what_the_index_lists(tmp_path: Path) -> None:
    weight_map = sharded(tmp_path)
    save_file({"stray": A}, tmp_path / "adapter.safetensors")
    write_index(tmp_path, weight_map)
    folder = SafetensorsFolder(tmp_path)
    assert sorted(folder.entries) == ["a", "b"]
    assert [file.name for file in folder.files] == ["model-1.safetensors", "model-2.safetensors"]


def test_sharded_without_index(tmp_path: Path) -> None:
    sharded(tmp_path)
    assert sorted(SafetensorsFolder(tmp_path).entries) == ["a", "b"]
    save_file({"a": A}, tmp_path / "other.safetensors")
    with pytest.raises(FormatError, match=r"'a' is also in model-1\.safetensors"):
        SafetensorsFolder(tmp_path)


def test_incomplete_folders_name_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"holds no \.safetensors file"):
        SafetensorsFolder(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(FormatError, match=r"\.bin/\.pt weights are pickles"):
        SafetensorsFolder(tmp_path)
    weight_map = sharded(tmp_path)
    write_index(tmp_path, weight_map | {"c": "model-3.safetensors"})
    with pytest.raises(FormatError, match=r"1 of the 3 files.*model-3\.safetensors"):
        SafetensorsFolder(tmp_path)
    write_index(tmp_path, weight_map | {"c": "model-2.safetensors"})
    with pytest.raises(FormatError, match=r"'c' is in model-2\.safetensors, but it is not"):
        SafetensorsFolder(tmp_path)
    for wrong in ({}, [], {"a": 3}, {"a": "../model-1.safetensors"}):
        write_index(tmp_path, wrong)
        with pytest.raises(FormatError, match="weight_map"):
            SafetensorsFolder(tmp_path)


def header_file(path: Path, header: object, data: bytes = b"") -> Path:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + data)
    return path


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.safetensors"
    save_file({"a": A}, file)
    whole = file.read_bytes()
    for size in (0, 5, 20, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(FormatError, match=r"(D|d)ownload it again"):
            read_header(file)
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    cases: list[tuple[object, str]] = [
        (b"not json", "header is damaged"),
        ([1], "header is damaged"),
        ({"a": {"dtype": "F32"}}, "header is damaged"),
        ({"a": entry | {"dtype": "F7"}}, "unknown type F7"),
        ({"a": entry | {"shape": [3]}}, "has 8 bytes"),
        ({"a": entry | {"data_offsets": [8, 16]}}, "reaches to byte"),
        ({"a": entry | {"data_offsets": [-8, 0]}}, "header is damaged"),
    ]
    for header, message in cases:
        with pytest.raises(FormatError, match=message):
            read_header(header_file(file, header, bytes(8)))
