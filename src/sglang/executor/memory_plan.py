"""How many tokens the KV pool holds: a pure function of what was measured and what the flags say."""

from __future__ import annotations

from dataclasses import dataclass

from sglang.config.model_config import ModelConfig
from sglang.config.server_args import ServerArgs

DEFAULT_SHARE = 0.25
"""Of the free memory, if no flag says how much: a server on somebody's own machine must leave room for the rest."""
DEFAULT_TOKENS = 65536
"""Enough to cache the prompts of a few hundred short requests or a few long ones; more is rarely noticed."""
SMALLEST_POOL = 256
"""A pool that was not asked for by size is not worth serving from below this."""
GB = 1 << 30


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Size of the KV pool, and why."""

    num_slots: int
    reason: str


class MemoryPlanError(ValueError):
    """The pool that was asked for, or any useful one, does not fit."""


def plan_memory(
    *,
    bytes_per_token: int,
    context_length: int,
    available: int,
    total: int,
    page_size: int = 1,
    max_total_tokens: int | None = None,
    mem_fraction_static: float | None = None,
) -> MemoryPlan:
    """Tokens of the KV pool, a multiple of ``page_size``.

    ``available`` and ``total`` are bytes of the device's memory, measured after the weights were loaded.

    * ``max_total_tokens``: that many (rounded down to whole pages).
    * ``mem_fraction_static``: all that leaves ``1 - mem_fraction_static`` of the total memory free.
    * neither: DEFAULT_TOKENS, or one whole context if that is more, within DEFAULT_SHARE of the available memory.
    """
    if max_total_tokens is not None:
        tokens, smallest = max_total_tokens, page_size
        reason = f"--max-total-tokens {max_total_tokens}"
    elif mem_fraction_static is not None:
        tokens, smallest = int(available - (1.0 - mem_fraction_static) * total) // bytes_per_token, SMALLEST_POOL
        reason = f"--mem-fraction-static {mem_fraction_static:g} of {total / GB:.1f} GB"
    else:
        tokens, smallest = int(available * DEFAULT_SHARE) // bytes_per_token, SMALLEST_POOL
        reason = f"{DEFAULT_SHARE:.0%} of {available / GB:.1f} GB free memory"
        if tokens > max(DEFAULT_TOKENS, context_length):
            tokens = max(DEFAULT_TOKENS, context_length)
            reason = "default size"
    smallest = max(smallest, page_size)
    if tokens < smallest:
        raise MemoryPlanError(
            f"the KV cache would hold {max(tokens, 0)} tokens ({reason}), it needs at least {smallest}: "
            f"{bytes_per_token} bytes a token, {available / GB:.2f} GB of {total / GB:.2f} GB are free. "
            f"Free some memory, choose a smaller model, or set --max-total-tokens or --mem-fraction-static higher"
        )
    slots = tokens - tokens % page_size
    if slots * bytes_per_token > available:
        raise MemoryPlanError(
            f"a KV cache of {slots} tokens ({reason}) takes {slots * bytes_per_token / GB:.2f} GB, but only "
            f"{available / GB:.2f} GB are free: set it to at most {available // bytes_per_token} tokens"
        )
    return MemoryPlan(slots, reason)


def plan_pool(
    server_args: ServerArgs, config: ModelConfig, bytes_per_token: int, device_memory: tuple[int, int]
) -> MemoryPlan:
    """:func:`plan_memory` with what the flags and the model say; ``device_memory`` = (available, total) bytes."""
    return plan_memory(
        bytes_per_token=bytes_per_token,
        context_length=config.context_length,
        available=device_memory[0],
        total=device_memory[1],
        page_size=server_args.page_size,
        max_total_tokens=server_args.max_total_tokens,
        mem_fraction_static=server_args.mem_fraction_static,
    )
