"""Memory and processor time of a process and everything below it, from /proc."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class Memory:
    """MiB. ``pss``: now, pages that processes share counted once; ``rss``: now, counted in each process; ``peak_rss``:
    the highest each process ever had, added up (an upper bound of the highest sum)."""

    pss: float
    rss: float
    peak_rss: float
    processes: int


def memory_of(root: int) -> Memory:
    """Of the process ``root`` and its descendants."""
    total = {"Pss": 0, "Rss": 0, "VmHWM": 0}
    count = 0
    for pid in family(root):
        folder = Path(f"/proc/{pid}")
        try:
            fields = kilobytes((folder / "smaps_rollup").read_text() + (folder / "status").read_text(), total)
        except OSError:  # ended meanwhile
            continue
        count += 1
        for name, value in fields.items():
            total[name] += value
    return Memory(total["Pss"] / 1024, total["Rss"] / 1024, total["VmHWM"] / 1024, count)


def kilobytes(text: str, names: Iterable[str]) -> dict[str, int]:
    """The numbers of the lines "Name:  123 kB" with these names."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name in names and value.split()[1:] == ["kB"]:
            found.setdefault(name, int(value.split()[0]))
    return found


def processor_seconds(root: int) -> float:
    """User and system time of the process ``root`` and its living descendants."""
    total = 0.0
    for pid in family(root):
        try:
            times = psutil.Process(pid).cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def busy_seconds() -> float:
    """Time all cores together have spent on anything since the machine started."""
    times = psutil.cpu_times()
    return sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0)


def family(root: int) -> list[int]:
    try:
        process = psutil.Process(root)
        return [root, *(child.pid for child in process.children(recursive=True))]
    except psutil.NoSuchProcess:
        return []
