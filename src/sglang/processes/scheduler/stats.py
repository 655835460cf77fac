"""Counters and gauges of the scheduler; monotone where they count."""

from __future__ import annotations

from typing import Any

from sglang.processes.scheduler.config import SchedulerConfig


class SchedulerStats:
    """What happened so far. Times are seconds of the injected clock."""

    def __init__(self, config: SchedulerConfig, now: float) -> None:
        self._interval = config.stats_interval
        self.gen_throughput = 0.0  # tokens per second over the last full interval of decode steps
        self.cached_tokens = 0
        self.uncached_tokens = 0
        self.prefill_seconds = 0.0
        self.retractions = 0
        self.decode_steps = 0
        # sums over pure decode steps, from which step time = a + b·batch can be fitted
        self._rows = 0
        self._seconds = 0.0
        self._rows_squared = 0
        self._rows_seconds = 0.0
        self._window_start = now
        self._window_tokens = 0
        self._window_steps = 0
        self._decoded = 0  # tokens, mixed steps included

    @property
    def processed_tokens(self) -> int:
        return self.uncached_tokens + self._decoded

    def step(self, prompt_tokens: int, rows: int, seconds: float, now: float) -> None:
        """One step that computed so many prompt tokens and one token for each of so many running requests."""
        if prompt_tokens:
            self.uncached_tokens += prompt_tokens
            self.prefill_seconds += seconds
        if not rows:
            return
        self._decoded += rows
        self._window_tokens += rows
        self._window_steps += 1
        if not prompt_tokens:  # a mixed step says nothing about the cost of decoding
            self.decode_steps += 1
            self._rows += rows
            self._seconds += seconds
            self._rows_squared += rows * rows
            self._rows_seconds += rows * seconds
        if self._window_steps == self._interval:
            elapsed = now - self._window_start
            self.gen_throughput = self._window_tokens / elapsed if elapsed > 0 else 0.0
            self.idle(now)

    def idle(self, now: float) -> None:
        """Measure the throughput from here on: a pause must not count as slow decoding."""
        self._window_start, self._window_tokens, self._window_steps = now, 0, 0

    def snapshot(self) -> dict[str, Any]:
        """The counters of the load record."""
        looked_up = self.cached_tokens + self.uncached_tokens
        return {
            "gen_throughput": round(self.gen_throughput, 2),
            "cache_hit_rate": round(self.cached_tokens / looked_up, 4) if looked_up else 0.0,
            "total_prefill_uncached_tokens": self.uncached_tokens,
            "total_prefill_busy_us": int(self.prefill_seconds * 1e6),
            "decode_moments": [
                float(self.decode_steps),
                float(self._rows),
                round(self._seconds * 1e6),
                float(self._rows_squared),
                round(self._rows_seconds * 1e6),
                float(self._rows),
            ],
        }
