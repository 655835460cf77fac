"""Choose the backend that computes at once for a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from sglang.ops.interface import Ops
from sglang.ops.torch_ops import TorchOps

BACKENDS: Mapping[str, Callable[[torch.device], Ops]] = {"torch": TorchOps}
"""Backends by name. A native backend joins here; ``torch`` is the reference that the others are tested against."""


def select(device: str | torch.device = "cpu", backend: str = "torch") -> Ops:
    """The operations for ``device`` (``cpu``, ``cuda:0`` ...), as implemented by ``backend``."""
    if backend not in BACKENDS:
        raise ValueError(f"unknown ops backend {backend!r}; choose one of: {', '.join(sorted(BACKENDS))}")
    return BACKENDS[backend](torch.device(device))
