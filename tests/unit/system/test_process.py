"""Processes end together."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import psutil

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


def start_family(tmp_path: Path) -> tuple[subprocess.Popen[str], Path]:
    script, marker = tmp_path / "family.py", tmp_path / "marker"
    script.write_text(textwrap.dedent(FAMILY))
    marker.touch()
    parent = subprocess.Popen([sys.executable, str(script), str(marker)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert parent.stdout.readline() == "up\n"
    return parent, marker


def test_a_child_dies_with_a_killed_parent_and_cleans_up(tmp_path: Path) -> None:
    parent, marker = start_family(tmp_path)
    children = psutil.Process(parent.pid).children(recursive=True)
    assert children
    parent.kill()
    parent.wait()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []
    assert not marker.exists()


def test_killing_a_tree_leaves_nothing(tmp_path: Path) -> None:
    parent, _ = start_family(tmp_path)
    family = [psutil.Process(parent.pid), *psutil.Process(parent.pid).children(recursive=True)]
    kill_process_tree(parent.pid)
    assert parent.wait(timeout=10) == -9
    assert not any(member.is_running() and member.status() != psutil.STATUS_ZOMBIE for member in family)


def test_the_parent_can_be_spared(tmp_path: Path) -> None:
    parent, _ = start_family(tmp_path)
    kill_process_tree(parent.pid, include_parent=False)
    assert parent.poll() is None
    kill_process_tree(parent.pid)
    parent.wait(timeout=10)


def test_an_unknown_pid_is_nothing_to_do() -> None:
    kill_process_tree(2**22 + 12345)
