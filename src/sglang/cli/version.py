"""``sglang version``."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sglang.version import __version__

REPOSITORY = Path(__file__).resolve().parents[3]


def main(argv: list[str]) -> int:
    """Print the version and, in a git checkout, the revision."""
    print(f"sglang version: {__version__}")
    revision = git_revision(REPOSITORY)
    if revision is not None:
        print(f"git revision: {revision}")
    return 0


def git_revision(folder: Path) -> str | None:
    """Short revision of the checkout rooted at ``folder``; None if it isn't one."""
    if not (folder / ".git").exists():
        return None
    command = ["git", "-C", str(folder), "rev-parse", "--short=7", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
