"""How much faster than others this server has to be, and which numbers it has to keep within."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# Least ratio to llama.cpp's server on the same file, in one run.
RATIOS: dict[str, dict[str, float]] = {
    "smollm2-135m-instruct.q4_1": {
        "single": 2.2,
        "batch": 4.5,
        "prefill": 4.2,
        "fewshot": 12.0,
        "chat": 4.0,
        "branch": 12.0,
    },
    "qwen2.5-coder-0.5b-instruct-q4_k_m": {"single": 1.6, "batch": 4.0, "prefill": 4.0},
}

# Least ratio to OpenVINO GenAI on the 8-bit file (in process, so without HTTP).
OPENVINO_RATIOS: dict[str, dict[str, float]] = {
    "smollm2-135m-instruct.q4_1": {"batch": 2.0, "prefill": 1.8, "fewshot": 2.5, "chat": 2.0},
}


@dataclass(frozen=True, slots=True)
class Limit:
    """A number of its own: ``bound`` is the least (``least``) or most it may be."""

    bound: float
    unit: str
    least: bool = False

    def met(self, value: float) -> bool:
        return value >= self.bound if self.least else value <= self.bound


LIMITS = {
    "http / Engine": Limit(0.92, "", least=True),
    "itl p99 / p50, prefills arriving": Limit(2.0, "×"),
    "ready": Limit(3.0, "s"),
    "memory": Limit(700, "MiB"),
    "decode step at batch 1, of the memory floor": Limit(0.75, "", least=True),
    "step overhead, batch 1": Limit(400, "µs"),
    "step overhead, batch 32": Limit(1500, "µs"),
}


def ratios_for(model: Path, table: dict[str, dict[str, float]]) -> dict[str, float]:
    """The bars of a model file by workload; none for an unknown file."""
    return table.get(model.stem.lower(), {})
