"""``sglang generate``."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from sglang.cli import generate, sources
from sglang.config.server_args import ServerArgs


class Recorder:
    """A source that answers with its own call."""

    def stream(self, messages: list[dict[str, str]], params: dict[str, Any]) -> Iterator[str]:
        yield f"chat {[message['content'] for message in messages]} {params}"

    def complete(self, prompt: str, params: dict[str, Any]) -> Iterator[str]:
        yield f"raw {prompt} {params}"


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> list[ServerArgs]:
    calls: list[ServerArgs] = []

    @contextmanager
    def open_engine(args: ServerArgs) -> Iterator[Recorder]:
        calls.append(args)
        yield Recorder()

    monkeypatch.setattr(sources, "open_engine", open_engine)
    return calls


def test_answers_once(opened: list[ServerArgs], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["Hi", "--model-path", "m", "--max-new-tokens", "3", "--temperature", "0", "--system", "s"]
    assert generate.main(words) == 0
    assert capsys.readouterr().out == "chat ['s', 'Hi'] {'max_new_tokens': 3, 'temperature': 0.0}\n"
    assert (opened[0].model_path, opened[0].log_level) == ("m", "error")


def test_raw_continues_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("Once upon"))
    assert generate.main(["-", "--raw", "--model", "m"]) == 0
    assert capsys.readouterr().out == "raw Once upon {'max_new_tokens': 1024}\n"


def test_errors_are_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(self: Recorder, prompt: str, params: dict[str, Any]) -> Iterator[str]:
        raise ValueError("too long")

    monkeypatch.setattr(Recorder, "complete", refuse)
    assert generate.main(["x", "--raw", "--model", "m"]) == 1
    assert "sglang generate: too long" in capsys.readouterr().err


def test_a_prompt_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        generate.main([])
    assert exit_info.value.code == 2
    assert "PROMPT" in capsys.readouterr().err
