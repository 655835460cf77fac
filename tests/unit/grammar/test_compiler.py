"""Compiling in the background: once each, with limits, and with a process that takes the blow."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sglang.grammar import compiler as module
from sglang.grammar.compiler import GrammarCompiler
from sglang.grammar.probe import ProbeProcess
from sglang.grammar.spec import GrammarError, GrammarOptions, GrammarSpec, check_choices, check_size
from sglang.grammar.vocabulary import Vocabulary, load_vocabulary


class FakeProbe:
    """Lets everything pass but "hostile"."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.checked: list[str] = []

    def vocabulary(self) -> Vocabulary:
        return self._vocabulary

    def check(self, backend: str, spec: GrammarSpec, options: GrammarOptions) -> float:
        self.checked.append(f"{backend} {spec.text}")
        if spec.text == "hostile":
            raise GrammarError("regex: takes too long", "regex")
        return 0.0

    def reap(self) -> None:
        pass

    def close(self) -> None:
        pass


def make(vocabulary: Vocabulary, backend: str = "xgrammar") -> tuple[GrammarCompiler, FakeProbe]:
    probe: Any = FakeProbe(vocabulary)
    return GrammarCompiler(backend, GrammarOptions(), len(vocabulary.tokens), probe), probe


def test_each_grammar_is_compiled_once(vocabulary: Vocabulary) -> None:
    compiler, probe = make(vocabulary)
    specs = [GrammarSpec("regex", text) for text in ("a", "b", "a")]
    first, second, again = [compiler.get(spec) for spec in specs]
    assert first is again
    assert first.result() is not second.result()
    assert compiler.get(specs[0]) is first
    assert probe.checked == ["xgrammar a", "xgrammar b"]
    assert (compiler.stats().compiled, compiler.stats().cache_hits >= 1) == (2, True)


def test_refusals_are_remembered(vocabulary: Vocabulary) -> None:
    compiler, probe = make(vocabulary)
    for _ in range(2):
        with pytest.raises(GrammarError, match="too long"):
            compiler.get(GrammarSpec("regex", "hostile")).result()
    assert probe.checked == ["xgrammar hostile"]
    assert compiler.stats().refused == 1


def test_a_schema_goes_to_the_library_that_keeps_it(vocabulary: Vocabulary) -> None:
    compiler, probe = make(vocabulary)
    for schema in ({"type": "string"}, {"type": "string", "pattern": "a"}):
        assert isinstance(compiler.get(GrammarSpec("json_schema", json.dumps(schema))).result().size, int)
    assert [line.split()[0] for line in probe.checked] == ["xgrammar", "llguidance"]


def test_the_cache_forgets_the_oldest(vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CACHE_ENTRIES", 2)
    compiler, probe = make(vocabulary)
    for text in ("a", "b", "a", "c", "a", "b"):
        compiler.get(GrammarSpec("regex", text)).result()
    assert probe.checked == ["xgrammar a", "xgrammar b", "xgrammar c", "xgrammar b"]


def test_grammars_that_are_too_big_are_refused(vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 1)
    with pytest.raises(GrammarError, match="MB"):
        make(vocabulary)[0].get(GrammarSpec("regex", "abc")).result()


def test_only_so_many_may_wait(vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PENDING", 0)
    with pytest.raises(GrammarError, match="wait"):
        make(vocabulary)[0].get(GrammarSpec("regex", "a")).result()


def test_long_texts_are_refused() -> None:
    with pytest.raises(GrammarError, match="bytes"):
        check_size(GrammarSpec("regex", "a" * 20_000))
    for choices in (["a", ""], ["a"] * 2000, ["a" * 100_000]):
        with pytest.raises(GrammarError, match="choice"):
            check_choices(choices)


# ------------------------------------------------------------------ the real process


@pytest.fixture(scope="module")
def probe(smollm2_gguf: Path) -> Iterator[ProbeProcess]:
    process = ProbeProcess(smollm2_gguf, 49152, [2], seconds=2, memory=300 << 20, pace=0.02)
    yield process
    process.close()


def refusal(probe: ProbeProcess, kind: str, text: str) -> str:
    with pytest.raises(GrammarError) as error:
        probe.check("xgrammar", GrammarSpec(kind, text), GrammarOptions())
    assert error.value.field == kind
    return str(error.value)


def test_the_process_brings_the_vocabulary(probe: ProbeProcess, smollm2_gguf: Path) -> None:
    vocabulary = probe.vocabulary()
    assert vocabulary == load_vocabulary(smollm2_gguf, 49152, [2])
    assert vocabulary.tokens[216] == b" "
    assert vocabulary.tokens[2] == b""
    assert 2 in vocabulary.special_ids


def test_good_grammars_pass_and_wrong_ones_say_why(probe: ProbeProcess) -> None:
    probe.check("xgrammar", GrammarSpec("regex", "[0-9]+"), GrammarOptions())
    probe.check("llguidance", GrammarSpec("json_schema", '{"minimum":3}'), GrammarOptions())
    assert "parenthesis" in refusal(probe, "regex", "(((")
    assert "no text" in refusal(probe, "ebnf", "root ::= root")


HOSTILE = [
    ("ebnf", "root ::=" + " a" * 8 + "\na ::=" + ' "x"*' * 20),
    ("regex", "((a{1,100}){1,100}){1,100}"),
    ("ebnf", 'root ::= a a a a a a a a\na ::= "x"* "x"* "x"* "x"*'),
    ("json_schema", json.dumps({"enum": [f"value {i}" for i in range(60_000)]})),
]


@pytest.mark.parametrize(("kind", "text"), HOSTILE, ids=["many", "regex", "ebnf", "json_schema"])
def test_hostile_grammars_are_refused_and_the_next_one_is_served(probe: ProbeProcess, kind: str, text: str) -> None:
    assert refusal(probe, kind, text).startswith(f"{kind}: ")
    probe.check("xgrammar", GrammarSpec("regex", "ab"), GrammarOptions())


def test_a_process_that_was_killed_is_started_again(probe: ProbeProcess) -> None:
    probe.check("xgrammar", GrammarSpec("regex", "a"), GrammarOptions())
    process = probe._process
    assert process is not None
    os.kill(process.pid, 9)
    process.wait()
    probe.reap()
    assert probe._process is None
    assert probe.check("xgrammar", GrammarSpec("regex", "a"), GrammarOptions()) >= 0
    assert probe._process is not process
