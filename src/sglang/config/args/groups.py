"""The flat sum of all flag groups. Bases stand in reverse, so that the model's fields come first.

Groups and sum only declare fields; ``ServerArgs`` alone gets a constructor. Making one for each of them would cost
every process 70 ms at its start.
"""

from __future__ import annotations

from dataclasses import dataclass

from sglang.config.args.api import ApiArgs
from sglang.config.args.features import DebugArgs, LoraArgs, MultimodalArgs, SpeculativeArgs
from sglang.config.args.http import HttpArgs
from sglang.config.args.kernels import KernelArgs
from sglang.config.args.logging import LoggingArgs
from sglang.config.args.memory import MemoryArgs
from sglang.config.args.model import ModelArgs
from sglang.config.args.parallel import ParallelArgs
from sglang.config.args.scheduling import SchedulingArgs

GROUPS: tuple[type, ...] = (
    ModelArgs,
    HttpArgs,
    MemoryArgs,
    SchedulingArgs,
    KernelArgs,
    LoggingArgs,
    ApiArgs,
    ParallelArgs,
    LoraArgs,
    SpeculativeArgs,
    MultimodalArgs,
    DebugArgs,
)


@dataclass(init=False, repr=False, eq=False)
class AllArgs(
    DebugArgs,
    MultimodalArgs,
    SpeculativeArgs,
    LoraArgs,
    ParallelArgs,
    ApiArgs,
    LoggingArgs,
    KernelArgs,
    SchedulingArgs,
    MemoryArgs,
    HttpArgs,
    ModelArgs,
):
    """Every field of ``ServerArgs``; checks are written against this type."""
