"""Which files a server's settings stand for. Called by every process, so that all agree."""

from __future__ import annotations

import json
from pathlib import Path

from sglang.config.model_config import ModelConfig
from sglang.config.server_args import ServerArgs
from sglang.formats.embedded import EMBEDDED_HELP, find_embedded_model
from sglang.formats.hub import resolve_model_path


def model_path(args: ServerArgs) -> Path:
    """Local folder or .gguf file of the model; fetched from the hub where needed. Empty: the embedded model."""
    if args.model_path:
        return resolve_model_path(args.model_path, args.revision, args.download_dir)
    embedded = find_embedded_model()
    if embedded is None:
        raise FileNotFoundError(f"no model was named and the embedded one is not installed; {EMBEDDED_HELP}")
    return embedded


def tokenizer_path(args: ServerArgs) -> Path:
    """Local folder or .gguf file that holds the tokenizer."""
    if args.tokenizer_path and args.tokenizer_path != args.model_path:
        return resolve_model_path(args.tokenizer_path, args.revision, args.download_dir)
    return model_path(args)


def model_config(args: ServerArgs) -> ModelConfig:
    # Imported here: it brings numpy along, and children should start before their parent has spent time on that.
    from sglang.config.load_model_config import load_model_config

    overrides = json.loads(args.json_model_override_args)
    return load_model_config(
        model_path(args), context_length=args.context_length, overrides=overrides, dtype=args.dtype
    )
