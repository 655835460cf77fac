"""Fill in the settings that were left open ("auto"): a pure function that records each choice and its reason."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from sglang.config.server_args import ServerArgs

DEFAULT_CHUNK = 4096
"""Prompt tokens of one pass where no accelerator sets the size: long prompts delay others by well under a second."""


@dataclass(frozen=True, slots=True)
class Decision:
    """One setting that was filled in."""

    field: str
    value: Any
    reason: str

    def __str__(self) -> str:
        return f"{self.field} = {self.value} ({self.reason})"


@dataclass(frozen=True, slots=True)
class Resolution:
    """Settings without open ends, and how they came about."""

    args: ServerArgs
    decisions: tuple[Decision, ...]


def resolve_args(args: ServerArgs, *, seed: int | None = None) -> Resolution:
    """Settings without open ends; ``args`` stays as it is. Resolving twice changes nothing.

    ``seed`` is used where ``--random-seed`` is open (default: a fresh draw). The size of the KV pool and
    ``max_running_requests`` stay open: only the executor can measure them, once the weights are loaded.
    """
    decisions = list(_choices(args, secrets.randbits(31) if seed is None else seed))
    values = {decision.field: decision.value for decision in decisions}
    return Resolution(args.replace(**values), tuple(decisions))


def _choices(args: ServerArgs, seed: int) -> list[Decision]:
    found: list[Decision] = []

    def choose(field: str, value: Any, reason: str) -> None:
        if getattr(args, field) != value:
            found.append(Decision(field, value, reason))

    if args.tokenizer_path is None and args.model_path:
        choose("tokenizer_path", args.model_path, "the model's own tokenizer")
    if args.served_model_name is None and args.model_path:
        choose("served_model_name", args.model_path, "named after the model's path")
    if args.device in (None, "auto"):
        choose("device", "cpu", "the only device with kernels")
    if args.random_seed is None:
        choose("random_seed", seed, "drawn at start")
    if args.log_level_http is None:
        choose("log_level_http", args.log_level, "same as log_level")
    if args.chunked_prefill_size is None:
        choose("chunked_prefill_size", DEFAULT_CHUNK, "default on CPU")
    if args.schedule_policy == "priority":
        choose("schedule_policy", "fcfs", "priority means: by priority, then by arrival")
        choose("enable_priority_scheduling", True, "--schedule-policy priority")
    if args.attention_backend is None:
        choose("attention_backend", "native", "kernels of this device")
    if args.sampling_backend is None:
        choose("sampling_backend", "pytorch", "kernels of this device")
    if args.load_balance_method == "auto":
        choose("load_balance_method", "round_robin", "one copy of the model")
    return found
