"""The machine card: what a benchmark ran on, so that results of different machines are never mixed up.

python benchmarks/machine.py        prints the card as JSON; builds a small C++ probe on first use
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PROBE_SOURCE = Path(__file__).with_name("probe.cc")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sglang-bench"
PACKAGES = ("sglang", "torch", "numpy", "tokenizers", "uvloop")
# Of the dozens of flags of a CPU those that matrix kernels care about.
ISA_FLAGS = (
    "avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16",
    "amx_int8", "amx_bf16", "asimd", "asimddp", "i8mm", "bf16", "sve",
)  # fmt: skip


def machine_card(with_probe: bool = True) -> dict[str, Any]:
    """CPU, memory, versions and date; with ``with_probe`` the measured limits too (about 4 seconds)."""
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    card: dict[str, Any] = {
        "cpu": cpu_model(text) or platform.processor() or platform.machine(),
        "isa": isa_flags(text),
        "cores": cores,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := installed_version(name))},
        "commit": commit(),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    if with_probe:
        card["probe"] = run_probe(cores)
    return card


def cpu_model(cpuinfo: str) -> str:
    """The name in the text of /proc/cpuinfo, with family and model since clouds hide them; "" if none is there."""
    fields: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        key, separator, value = line.partition(":")
        if separator:
            fields.setdefault(key.strip(), value.strip())
    name = fields.get("model name") or fields.get("CPU part", "")
    if name and "cpu family" in fields:
        name += f" (family {fields['cpu family']}, model {fields.get('model', '?')})"
    return name


def isa_flags(cpuinfo: str) -> list[str]:
    """The flags in the text of /proc/cpuinfo that matter to matrix kernels, in a fixed order."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip().lower() in ("flags", "features"):
            present = set(value.split())
            return [flag for flag in ISA_FLAGS if flag in present]
    return []


def installed_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def commit() -> str:
    """The repository's commit, with "+" when files differ from it; "" outside a repository."""
    here = Path(__file__).parent
    try:
        head = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=here, capture_output=True, text=True, check=True
        )
        changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "../src", "../csrc"], cwd=here, check=False)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head.stdout.strip() + ("+" if changed.returncode else "")


def run_probe(cores: int) -> dict[str, dict[str, Any]]:
    """Rates of one thread and of all cores: ``{"1": {"read_gb_s", "fma_gmac_s", "int8_gmac_s", ...}, "2": ...}``."""
    program = _build_probe()
    rates = {}
    for threads in sorted({1, cores}):
        done = subprocess.run([str(program), str(threads)], capture_output=True, text=True, check=True)
        rates[str(threads)] = json.loads(done.stdout)
    return rates


def _build_probe() -> Path:
    source = PROBE_SOURCE.read_bytes()
    program = CACHE / f"probe-{hashlib.sha256(source + platform.node().encode()).hexdigest()[:12]}"
    if program.exists():
        return program
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise RuntimeError("the hardware probe needs a C++ compiler; none of c++, g++, clang++ is there. Install one.")
    CACHE.mkdir(parents=True, exist_ok=True)
    fresh = program.with_suffix(f".{os.getpid()}")
    subprocess.run(
        [compiler, "-O3", "-march=native", "-std=c++17", "-pthread", str(PROBE_SOURCE), "-o", str(fresh)], check=True
    )
    fresh.rename(program)
    return program


if __name__ == "__main__":
    print(json.dumps(machine_card(), indent=2))
