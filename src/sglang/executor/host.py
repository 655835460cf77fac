"""Measure the machine: free memory and processor cores, as far as this process may use them."""

from __future__ import annotations

import math
import os
from pathlib import Path

import psutil

CGROUP = Path("/sys/fs/cgroup")


def memory(cgroup: Path = CGROUP) -> tuple[int, int]:
    """(available, total) bytes: of the machine, or less where a container (cgroup v2) sets a limit."""
    machine = psutil.virtual_memory()
    limit = _read_number(cgroup / "memory.max")
    if limit is None or limit >= machine.total:
        return machine.available, machine.total
    used = _read_number(cgroup / "memory.current") or 0
    free = limit - used + _reclaimable(cgroup / "memory.stat")
    return max(0, min(machine.available, free)), limit


def cores(cgroup: Path = CGROUP) -> int:
    """Physical cores that this process may use: hyper-threads gain nothing in arithmetic."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(allowed, psutil.cpu_count(logical=False) or allowed, _quota(cgroup / "cpu.max")))


def _quota(file: Path) -> int:
    """Whole cores that a container may use; cpu.max holds "<microseconds or max> <period>"."""
    try:
        amount, period = file.read_text().split()
        return math.ceil(int(amount) / int(period))
    except (OSError, ValueError):
        return 1 << 30


def _read_number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):  # absent, or "max"
        return None


def _reclaimable(stat: Path) -> int:
    """File cache that the kernel drops when memory is short; it counts as used, for instance after reading weights."""
    try:
        lines = (line.split() for line in stat.read_text().splitlines())
        return sum(int(value) for key, value in lines if key in ("inactive_file", "active_file"))
    except (OSError, ValueError):
        return 0
