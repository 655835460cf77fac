"""The ``sglang`` command and its small subcommands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sglang.cli import env, main, version
from sglang.version import __version__


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in main.COMMANDS)


def test_no_words_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([]) == 0
    assert "usage: sglang COMMAND" in capsys.readouterr().out


def test_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["fly"]) == 2
    assert "unknown command 'fly'; known are: serve, chat" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["version"], ["--version"]])
def test_version(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"sglang version: {__version__}"
    assert all(re.fullmatch(r"git revision: [0-9a-f]{7,}", line) for line in lines[1:])


def test_no_revision_outside_a_checkout(tmp_path: Path) -> None:
    assert version.git_revision(tmp_path) is None


def test_python_m_sglang_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "sglang", "version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"sglang version: {__version__}\n")


def test_env_report() -> None:
    facts = env.report()
    assert facts["sglang"] == __version__
    assert facts["torch"] != "not installed"
    assert env.package_version("no-such-package-at-all") == "not installed"


def test_env_reads_linux_files() -> None:
    cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\nflags\t\t: fpu avx2 avx512f\n"
    assert env.cpu_name(cpuinfo) == "Some CPU @ 3 GHz"
    assert env.cpu_features(cpuinfo) == "avx2 avx512f"
    assert env.cpu_features("") == "unknown"
    assert env.memory_size("MemTotal:       16777216 kB\n") == "16.0 GiB"
    assert env.memory_size("") == "unknown"
