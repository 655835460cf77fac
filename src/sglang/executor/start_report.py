"""How building an executor went: for logs and for the info routes."""

from __future__ import annotations

from dataclasses import dataclass

from sglang.executor.memory_plan import MemoryPlan


@dataclass(frozen=True, slots=True)
class StartReport:
    """Choices, sizes and times of one start."""

    backend: str
    threads: int
    memory: MemoryPlan
    kv_cache_bytes: int
    load_seconds: float = 0.0
    warm_up_seconds: float = 0.0

    def summary(self) -> str:
        """One line for the log."""
        return (
            f"{self.backend}: weights in {self.load_seconds:.1f} s, warm-up in {self.warm_up_seconds:.1f} s, "
            f"KV pool of {self.memory.num_slots} tokens ({self.kv_cache_bytes / 2**30:.2f} GiB; {self.memory.reason}), "
            f"{self.threads} threads"
        )
