"""The parent's own part of a system: what it loads of the model, and the tokenizer manager over it.

A module of its own, so that :mod:`sglang.engine.launcher` can start the children before any of this is imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sglang.config import model_files
from sglang.config.model_config import ModelConfig
from sglang.config.ports import PortArgs
from sglang.config.server_args import ServerArgs
from sglang.processes.tokenizer.manager import TokenizerManager
from sglang.text.chat_template import ChatTemplate, load_chat_template
from sglang.text.tokenizer import Tokenizer, load_tokenizer


@dataclass(frozen=True, slots=True)
class Front:
    """What the parent needs of the model."""

    config: ModelConfig
    tokenizer: Tokenizer | None
    chat_template: ChatTemplate | None


def load_front(args: ServerArgs) -> Front:
    """Description, tokenizer and chat template; the latter two are None with ``skip_tokenizer_init``."""
    config = model_files.model_config(args)
    if args.skip_tokenizer_init:
        return Front(config, None, None)
    tokenizer = load_tokenizer(model_files.tokenizer_path(args))
    return Front(config, tokenizer, load_chat_template(args.chat_template, tokenizer))


def make_manager(
    manager_type: type[TokenizerManager] | None,
    server_args: ServerArgs,
    port_args: PortArgs,
    front: Front,
    scheduler_info: dict[str, Any],
) -> TokenizerManager:
    """The manager of a system whose children are ready."""
    make = manager_type or TokenizerManager
    return make(server_args, port_args, front.config, front.tokenizer, front.chat_template, scheduler_info)
