"""What goes wrong at the start is said, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from sglang.config.server_args import ServerArgs
from sglang.engine.engine import Engine
from sglang.engine.launcher import LaunchError, launch_system

TESTS = Path(__file__).parents[2]

GUARDED = """
    import sys
    from unit.engine.stand_in import EchoEngine

    if __name__ == "__main__":
        engine = EchoEngine(model_path=sys.argv[1])
        print(engine.port_args.directory, *engine.get_all_child_pids(), flush=True)
        sys.stdin.readline()
"""
UNGUARDED = """
    import sys
    from sglang.engine.engine import Engine
    print(Engine(model_path=sys.argv[1]).generate("hi"))
"""
LOADING = """
    import sys
    from unit.engine.stand_in import EchoEngine

    class Slow(EchoEngine):
        run_scheduler_process_func = "unit.engine.stand_in:run_never_ready"

    if __name__ == "__main__":
        Slow(model_path=sys.argv[1])
"""
WORKING = """
    import sys
    from unit.engine.stand_in import EchoEngine

    if __name__ == "__main__":
        engine = EchoEngine(model_path=sys.argv[1])
        print("loading", flush=True)
        engine.generate("Hello world", {"max_new_tokens": 8000, "ignore_eos": True}, rid="endless")
"""


def launch(model: Path, entry: str) -> None:
    launch_system(ServerArgs(model_path=str(model), log_level="error"), scheduler_entry=f"unit.engine.stand_in:{entry}")


@pytest.fixture
def sockets_folder() -> Iterator[Path]:
    """Where this test's private directories are made, here and in scripts."""
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", folder)
        patch.setenv("TMPDIR", folder)
        yield Path(folder)


def nothing_left(folder: Path) -> bool:
    return list(folder.iterdir()) == []


@contextmanager
def script(tmp_path: Path, source: str, model: Path) -> Iterator[subprocess.Popen[str]]:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(source))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(
        [sys.executable, str(path), str(model)],
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("run_failing", "scheduler process could not start: ValueError: no such weights: layer 7"),
        ("run_vanishing", "scheduler process ended with exit code 7 before it was ready"),
    ],
)
def test_a_child_that_fails_to_start_gives_its_reason(
    smollm2_gguf: Path, sockets_folder: Path, entry: str, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(LaunchError, match=reason):
        launch(smollm2_gguf, entry)
    assert nothing_left(sockets_folder)


def test_a_missing_model_is_refused_before_anything_starts(sockets_folder: Path) -> None:
    with pytest.raises((OSError, ValueError), match="no/such/model"):
        Engine(model_path="no/such/model/at/all")
    assert nothing_left(sockets_folder)


def test_a_cut_file_is_refused_without_a_stack(
    tmp_path: Path, smollm2_gguf: Path, sockets_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut.gguf"
    with smollm2_gguf.open("rb") as whole:
        cut.write_bytes(whole.read(3_000_000))
    with pytest.raises((LaunchError, ValueError), match="ends at byte 3000000"):
        Engine(model_path=str(cut))
    assert "Traceback" not in capfd.readouterr().err
    assert nothing_left(sockets_folder)


def test_settings_come_one_way_only(smollm2_gguf: Path) -> None:
    with pytest.raises(TypeError, match="log_level"):
        Engine(server_args=ServerArgs(model_path=str(smollm2_gguf)), log_level="info")
    with pytest.raises(TypeError, match="no_such_setting"):
        Engine(model_path=str(smollm2_gguf), no_such_setting=1)


def test_a_script_without_a_guard_fails_and_says_how_to_mend_it(
    tmp_path: Path, smollm2_gguf: Path, sockets_folder: Path
) -> None:
    with script(tmp_path, UNGUARDED, smollm2_gguf) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    last = errors.strip().splitlines()[-1]
    assert 'if __name__ == "__main__":' in last
    assert "LaunchError" in errors
    assert nothing_left(sockets_folder)


def test_a_killed_parent_takes_its_children_along(tmp_path: Path, smollm2_gguf: Path, sockets_folder: Path) -> None:
    with script(tmp_path, GUARDED, smollm2_gguf) as process:
        assert process.stdout is not None
        directory, *pids = process.stdout.readline().split()
        children = [psutil.Process(int(pid)) for pid in pids]
        assert len(children) == 2
        assert Path(directory).exists()
        process.kill()
        process.wait()
        _, alive = psutil.wait_procs(children, timeout=5)
        assert alive == []
    assert nothing_left(sockets_folder)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_whole_group_leaves_nothing(
    tmp_path: Path, smollm2_gguf: Path, sockets_folder: Path, signum: int
) -> None:
    with script(tmp_path, GUARDED, smollm2_gguf) as process:
        assert process.stdout is not None
        children = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()[1:]]
        os.killpg(process.pid, signum)
        assert process.wait(timeout=10) == -signum
        _, alive = psutil.wait_procs(children, timeout=5)
        assert alive == []
    assert nothing_left(sockets_folder)


def test_children_leave_signals_to_the_parent(tmp_path: Path, smollm2_gguf: Path) -> None:
    with script(tmp_path, GUARDED, smollm2_gguf) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()[1:]]
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        _, errors = process.communicate("\n", timeout=60)
        assert (process.returncode, errors) == (0, "")


def test_an_engine_without_shutdown_ends_with_its_script(
    tmp_path: Path, smollm2_gguf: Path, sockets_folder: Path
) -> None:
    with script(tmp_path, GUARDED, smollm2_gguf) as process:
        assert process.stdout is not None
        children = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()[1:]]
        _, errors = process.communicate("\n", timeout=60)
        assert process.returncode == 0, errors
        assert errors == ""
        _, alive = psutil.wait_procs(children, timeout=5)
        assert alive == []
    assert nothing_left(sockets_folder)


@pytest.mark.parametrize("source", [LOADING, WORKING])
def test_an_interrupt_leaves_nothing(tmp_path: Path, smollm2_gguf: Path, sockets_folder: Path, source: str) -> None:
    with script(tmp_path, source, smollm2_gguf) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        children = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does: to the whole group
        _, errors = process.communicate(timeout=60)
        assert process.returncode != 0
        assert errors.strip().splitlines()[-1] == "KeyboardInterrupt"
        assert errors.count("Traceback") == 1
        _, alive = psutil.wait_procs(children, timeout=5)
        assert alive == []
    assert nothing_left(sockets_folder)


def test_the_parent_never_loads_torch() -> None:
    code = "import sys, sglang.engine.engine; print({'torch', 'transformers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
