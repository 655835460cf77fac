"""Writes small GGUF files: with the gguf package, or byte by byte where a file has to be wrong."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np


def write_gguf(path: Path, arch: str, metadata: Mapping[str, Any], tensors: Mapping[str, np.ndarray]) -> Path:
    """``metadata`` keys that begin with "." get the architecture in front."""
    writer = gguf.GGUFWriter(path, arch)
    for key, value in metadata.items():
        name = f"{arch}{key}" if key.startswith(".") else key
        if isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
        else:
            writer.add_array(name, value)
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def raw_gguf(keys: list[bytes], tensors: list[bytes], data: bytes = b"", *, version: int = 3) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys)) + b"".join(keys + tensors)
    return head + b"\0" * (-len(head) % 32) + data


def string_key(name: str, value: str) -> bytes:
    return text(name) + struct.pack("<I", 8) + text(value)


def tensor_entry(name: str, dims: list[int], kind: int, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
