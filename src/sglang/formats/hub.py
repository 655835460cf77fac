"""From the name of a model to a local path: a folder, a .gguf file, or a snapshot of a Hugging Face repository."""

from __future__ import annotations

import re
from pathlib import Path

from sglang.formats.errors import FormatError

ALLOWED_FILES = ("*.safetensors", "*.json", "*.model", "*.txt", "*.jinja")
"""What is fetched of a repository. Pickled weights (.bin, .pt) are left out: reading them runs code."""

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_ACCEPTED = "Accepted: a folder with config.json, a .gguf file, or the id of a Hugging Face repository (owner/name)."


def resolve_model_path(name: str, revision: str | None = None, download_dir: str | None = None) -> Path:
    """An existing folder or .gguf file as it is; anything that looks like a hub id is fetched (or found in the cache).

    ``HF_HUB_OFFLINE=1`` is respected: then only the cache is searched. Raises :class:`FormatError`.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        return _checked_folder(path)
    if path.is_file():
        if path.suffix != ".gguf":
            raise FormatError(f"model {name!r} is a file of kind {path.suffix or 'unknown'!r}. {_ACCEPTED}")
        return path
    if name.endswith(".gguf") or not _HUB_ID.fullmatch(name):
        raise FormatError(f"model {name!r}: no such file or folder. {_ACCEPTED} Check the spelling of the path.")
    return _snapshot(name, revision, download_dir)


def _checked_folder(path: Path) -> Path:
    """The folder; or its .gguf file where that is all it holds."""
    if (path / "config.json").is_file():
        return path
    files = sorted(path.glob("*.gguf"))
    first_parts = [file for file in files if "-of-" not in file.name or "-00001-of-" in file.name]
    if len(first_parts) == 1:
        return first_parts[0]
    if first_parts:
        names = ", ".join(file.name for file in first_parts)
        raise FormatError(f"model folder {str(path)!r} holds several .gguf files: {names}. Name one of them.")
    raise FormatError(f"model folder {str(path)!r} holds neither config.json nor a .gguf file. {_ACCEPTED}")


def _snapshot(name: str, revision: str | None, download_dir: str | None) -> Path:
    # Imported here: it costs a tenth of a second, which a start from a local file should not pay.
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        folder = huggingface_hub.snapshot_download(
            name, revision=revision, cache_dir=download_dir, allow_patterns=list(ALLOWED_FILES)
        )
    except LocalEntryNotFoundError:
        reason = "it is not in the local cache, and the hub is offline or can't be reached"
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
    else:
        return _checked_folder(Path(folder))
    at = f" (revision {revision!r})" if revision else ""
    raise FormatError(
        f"model {name!r}{at} is no local path and can't be fetched from the hub: {reason}. {_ACCEPTED} "
        "Download the model first, or set HF_TOKEN if the repository is private."
    )
