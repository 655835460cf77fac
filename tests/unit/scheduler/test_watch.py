"""Stop strings are found in decoded text, with the tokenizer that loads in the background."""

from __future__ import annotations

from pathlib import Path

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers

from sglang.ipc.messages import DecodeSpec
from sglang.processes.scheduler.watch import stop_watch_factory
from sglang.text.tokenizer import Tokenizer


def words(path: Path) -> Tokenizer:
    backend = tokenizers.Tokenizer(models.WordLevel({"alpha": 0, "beta": 1, "gamma": 2}, unk_token="alpha"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return Tokenizer(backend)


def test_a_stop_string_over_several_tokens() -> None:
    watch = stop_watch_factory(Path("x"), words)(DecodeSpec(rid="r", stop=["pha be"]))
    assert [watch.push([token]) for token in (1, 0, 1)] == [None, None, "pha be"]


def test_the_tokenizer_is_loaded_once_and_only_for_those_who_need_it() -> None:
    loads: list[Path] = []

    def load(path: Path) -> Tokenizer:
        loads.append(path)
        return words(path)

    make = stop_watch_factory(Path("x"), load)
    assert loads == []
    watches = [make(DecodeSpec(rid="r", stop=["beta"])) for _ in range(2)]
    assert [watch.push([1]) for watch in watches] == ["beta", "beta"]
    assert loads == [Path("x")]


def test_patterns_come_after_strings() -> None:
    make = stop_watch_factory(Path("x"), words)
    assert make(DecodeSpec(rid="r", stop=["zeta"], stop_regex=["g.m+a"])).push([2]) == "g.m+a"
    assert make(DecodeSpec(rid="r", stop=["amm"], stop_regex=["g.m+a"])).push([2]) == "amm"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_tokenizer_that_does_not_load_is_said_so() -> None:
    def fail(path: Path) -> Tokenizer:
        raise OSError("gone")

    watch = stop_watch_factory(Path("somewhere"), fail)(DecodeSpec(rid="r", stop=["a"]))
    with pytest.raises(RuntimeError, match="tokenizer of somewhere"):
        watch.push([1])
