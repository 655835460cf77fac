"""Container limits, read from a made-up cgroup folder."""

from __future__ import annotations

from pathlib import Path

import psutil

from sglang.executor.host import cores, memory


def test_without_limits_the_machine_counts(tmp_path: Path) -> None:
    total = psutil.virtual_memory().total
    assert memory(tmp_path)[1] == total
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert memory(tmp_path)[1] == total
    assert 0 < memory(tmp_path)[0] <= total
    assert 1 <= cores(tmp_path) <= (psutil.cpu_count() or 1)


def test_a_container_limits_memory_and_its_file_cache_counts_as_free(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("10000000\n")
    assert memory(tmp_path) == (10_000_000, 10_000_000)
    (tmp_path / "memory.current").write_text("9000000\n")
    (tmp_path / "memory.stat").write_text("anon 5000000\ninactive_file 300000\nactive_file 200000\n")
    assert memory(tmp_path) == (1_500_000, 10_000_000)
    (tmp_path / "memory.current").write_text("99000000\n")
    assert memory(tmp_path) == (0, 10_000_000)


def test_a_container_limits_cores(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert cores(tmp_path) == 1
