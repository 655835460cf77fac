"""What the server tells about itself. Keys and passwords never leave."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from sglang.config.model_config import ModelConfig
from sglang.config.server_args import REDACTED, ServerArgs
from sglang.version import __version__


def model_info(args: ServerArgs, config: ModelConfig) -> dict[str, Any]:
    """The reply of ``/model_info``."""
    return {
        "model_path": args.model_path,
        "served_model_name": args.served_model_name,
        "tokenizer_path": args.tokenizer_path,
        "is_generation": True,
        "preferred_sampling_params": args.preferred_sampling_params,
        "weight_version": args.weight_version,
        "load_format": args.load_format,
        "reasoning_parser": args.reasoning_parser,
        # The older name of the same parser, which clients of existing servers compare with.
        "tool_call_parser": "qwen" if args.tool_call_parser == "qwen25" else args.tool_call_parser,
        "disaggregation_mode": "null",
        "has_image_understanding": False,
        "has_audio_understanding": False,
        "model_type": config.model_type,
        "architectures": [config.architecture],
    }


def server_info(
    args: ServerArgs, status: str, scheduler_info: dict[str, Any], internal_states: list[dict[str, Any]]
) -> dict[str, Any]:
    """The reply of ``/server_info``: all settings, what the scheduler found out, and its state now."""
    public = args.public_dict()
    hidden = {name for name, value in public.items() if value == REDACTED}
    states = [_redact(state, hidden) for state in internal_states]
    return {
        **public,
        "launch_command": _launch_command(getattr(args, name) for name in hidden),
        "status": status,
        **_redact(scheduler_info, hidden),
        "kv_events": None,
        "internal_states": states,
        "version": __version__,
        "frontend": "python",
    }


def _redact(values: dict[str, Any], hidden: set[str]) -> dict[str, Any]:
    return {name: REDACTED if name in hidden and value is not None else value for name, value in values.items()}


def _launch_command(secrets: Iterable[object]) -> str:
    command = " ".join(sys.argv[1:])
    for secret in secrets:
        if secret:
            command = command.replace(str(secret), REDACTED)
    return command
