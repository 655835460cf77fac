"""Which class builds which architecture. Classes are named by string and imported when asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import cast

from sglang.models.base import CausalLM

_FAMILIES = "sglang.models.families"

ARCHITECTURES: Mapping[str, str] = {
    "LlamaForCausalLM": f"{_FAMILIES}.llama:LlamaForCausalLM",
    "MistralForCausalLM": f"{_FAMILIES}.llama:MistralForCausalLM",
    "Qwen2ForCausalLM": f"{_FAMILIES}.qwen2:Qwen2ForCausalLM",
    "Qwen3ForCausalLM": f"{_FAMILIES}.qwen3:Qwen3ForCausalLM",
    "Gemma2ForCausalLM": f"{_FAMILIES}.gemma2:Gemma2ForCausalLM",
    "Gemma3ForCausalLM": f"{_FAMILIES}.gemma3:Gemma3ForCausalLM",
    "Gemma3ForConditionalGeneration": f"{_FAMILIES}.gemma3:Gemma3ForConditionalGeneration",
    "Phi3ForCausalLM": f"{_FAMILIES}.phi3:Phi3ForCausalLM",
}
"""Hugging Face architecture name -> ``module:Class``."""


def model_class(architecture: str) -> type[CausalLM]:
    """The class for ``config.architecture``; ValueError lists the choices when there is none."""
    if architecture not in ARCHITECTURES:
        raise ValueError(
            f"model architecture {architecture!r} is not supported; supported: {', '.join(sorted(ARCHITECTURES))}"
        )
    module, _, name = ARCHITECTURES[architecture].partition(":")
    return cast("type[CausalLM]", getattr(import_module(module), name))
