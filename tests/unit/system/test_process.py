"""Processes end together."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sglang.system.process import kill_process_tree

FAMILY = """
    import multiprocessing, sys, time
    from pathlib import Path
    from sglang.system.process import die_with_parent

    def child(marker):
        die_with_parent(before_exit=lambda: Path(marker).unlink())
        print("up", flush=True)
        while True:
            time.sleep(60)

    def start(marker):
        multiprocessing.get_context("spawn").Process(target=child, args=(marker,)).start()

    if __name__ == "__main__":
        import threading
        # The thread that starts the child ends at once: the child must not take that for the parent's death.
        starter = threading.Thread(target=start, args=(sys.argv[1],))
        starter.start()
        starter.join()
        time.sleep(60)
"""


Family = tuple["subprocess.Popen[str]", Path]


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    """A parent with a child that holds a marker file."""
    script, marker = tmp_path / "family.py", tmp_path / "marker"
    script.write_text(textwrap.dedent(FAMILY))
    marker.touch()
    command = [sys.executable, str(script), str(marker)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n"
        yield parent, marker
        parent.kill()


def test_a_child_dies_with_a_killed_parent_and_cleans_up(family: Family) -> None:
    parent, marker = family
    children = psutil.Process(parent.pid).children(recursive=True)
    assert children
    parent.kill()
    parent.wait()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []
    assert not marker.exists()


def test_killing_a_tree_leaves_nothing_but_the_exit_status(family: Family) -> None:
    parent, _ = family
    children = psutil.Process(parent.pid).children(recursive=True)
    kill_process_tree(parent.pid)
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []
    assert parent.wait(timeout=10) == -9


def test_the_parent_can_be_spared(family: Family) -> None:
    parent, _ = family
    kill_process_tree(parent.pid, include_parent=False)
    assert parent.poll() is None


def test_an_unknown_pid_is_nothing_to_do() -> None:
    kill_process_tree(2**22 + 12345)
