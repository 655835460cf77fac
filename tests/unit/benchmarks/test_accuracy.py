"""Scores, windows and verdicts of the accuracy benchmark."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.accuracy import report, text
from benchmarks.accuracy.score import ROWS, Scores, compare, join
from benchmarks.accuracy.sides import Side
from benchmarks.accuracy.store import Store, digest_of_files, digest_of_ids, digest_of_settings


def logits(*probabilities: list[float]) -> Any:
    return np.log(np.array(probabilities, np.float32))


def test_scores_by_hand() -> None:
    reference = logits([0.5, 0.5], [0.25, 0.75], [0.9, 0.1])
    ours = logits([0.5, 0.5, 0.0001], [0.75, 0.25, 0.0001], [0.1, 0.9, 0.0001])  # one padding id
    got = compare([reference], [ours], np.array([0, 1]))  # nothing comes after the third position
    assert got.nll == pytest.approx([math.log(2), math.log(4)], rel=1e-5)
    assert got.reference_nll == pytest.approx([math.log(2), math.log(4 / 3)], rel=1e-5)
    assert got.kl == pytest.approx([0, 0.25 * math.log(1 / 3) + 0.75 * math.log(3)], abs=1e-6)
    assert got.same_top.tolist() == [True, False]


def test_logits_may_be_shifted_and_chunks_may_have_any_size() -> None:
    rng = np.random.default_rng(0)
    count = 2 * ROWS + 7
    reference, ours = rng.standard_normal((2, count, 5)).astype(np.float32)
    targets = rng.integers(0, 5, count - 1)
    whole = compare([reference], [ours], targets)
    pieces = [slice(0, 3), slice(3, ROWS + 5), slice(ROWS + 5, count)]
    cut = compare([reference[piece] + 8 for piece in pieces], [ours[piece] - 8 for piece in pieces], targets)
    assert len(whole.nll) == count - 1
    assert cut.nll == pytest.approx(whole.nll, abs=1e-5)
    assert cut.kl == pytest.approx(whole.kl, abs=1e-5)


def scored(kl: list[float], change: float = 0.0) -> Scores:
    reference = np.full(len(kl), math.log(20.0))
    return Scores(reference + change, reference, np.array(kl), np.array([True] * len(kl)))


def test_summary() -> None:
    got = join([scored([0.001, 0.003], 0.01), scored([0.002], 0.01)]).summary()
    assert got["tokens"] == 3
    assert got["reference_perplexity"] == pytest.approx(20)
    assert got["perplexity"] == pytest.approx(20 * math.exp(0.01))
    assert got["perplexity_change"] == pytest.approx(0.01005, rel=1e-3)
    assert (got["kl_mean"], got["kl_median"], got["kl_max"]) == pytest.approx((0.002, 0.002, 0.003))


def windows() -> text.Windows:
    return text.Windows(np.zeros((1, 3), np.int64), "a text", "00")


def result(*sides: tuple[str, Scores]) -> report.Result:
    measured = [(Side(name, {}, lambda: None), scores) for name, scores in sides]  # type: ignore[arg-type,return-value]
    return report.result(Path("some/model.gguf"), windows(), measured)


def test_ours_is_held_against_the_best_peer() -> None:
    got = result(
        ("sglang", scored([0.1, 0.3])),
        ("llama.cpp -fa on", scored([0.5, 0.5])),
        ("llama.cpp -fa off", scored([0.4, 0.4])),
    )
    assert got["sides"][0]["kl_ratio"] == pytest.approx(0.5)
    assert got["sides"][0]["kl_over_peer"] == pytest.approx(-0.2)
    assert "kl_ratio" not in got["sides"][1]
    assert "0.50 x" in report.table(got)


@pytest.mark.parametrize(
    ("kl", "change", "met"),
    [(0.1, 0.004, True), (0.1, -0.004, True), (0.1, 0.006, False), (0.1, -0.006, False), (0.3, 0.0, False)],
)
def test_bars(kl: float, change: float, met: bool) -> None:
    got = result(("sglang", scored([kl], change)), ("llama.cpp", scored([0.2])))
    assert report.passed(got) is met
    assert ("MISSED" in report.table(got)) is not met


def test_without_a_peer_only_the_perplexity_counts() -> None:
    assert report.passed(result(("sglang", scored([9.0]))))
    assert not report.passed(result(("sglang", scored([0.0], 0.1))))


class FakeTokenizer:
    def encode(self, words: str, add_special_tokens: bool) -> list[int]:
        return [7] * add_special_tokens + [int(word) for word in words.split()]


def test_windows_are_spread_and_begin_with_bos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "load_tokenizer", lambda model: FakeTokenizer())
    words = " ".join(str(number) for number in range(100, 120))
    got = text.cut_windows(Path("m"), words, "numbers", 3, 5)
    assert got.ids.tolist() == [[7, 100, 101, 102, 103], [7, 108, 109, 110, 111], [7, 116, 117, 118, 119]]
    assert got.scored == 12
    with pytest.raises(ValueError, match="20 tokens; 6 windows of 5 need 24"):
        text.cut_windows(Path("m"), words, "numbers", 6, 5)


def test_the_manual_is_prose() -> None:
    name, prose = text.read_text(None)
    paragraphs = prose.split("\n\n")
    assert name == "pydoc_data.topics"
    assert len(prose) > 60_000
    assert len(set(paragraphs)) == len(paragraphs)
    assert all(len(paragraph) > 100 and "\n" not in paragraph for paragraph in paragraphs)


def test_what_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.get("side", "window") is None
    store.put(scored([0.25, 0.5]).arrays(), "side", "window")
    kept = store.get("side", "window")
    assert kept is not None
    assert Scores(**kept).kl.tolist() == [0.25, 0.5]
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["window.npz"]


def test_digests_differ_where_numbers_may(tmp_path: Path) -> None:
    for name, content in (("a", b"12"), ("b", b"13")):
        (tmp_path / name).write_bytes(content)
    a, b = tmp_path / "a", tmp_path / "b"
    assert len({digest_of_files(files) for files in ([a], [b], [a, b], [b, a])}) == 4
    assert digest_of_ids(np.array([1, 2])) != digest_of_ids(np.array([2, 1]))
    assert digest_of_settings({"x": 1, "y": 2}) == digest_of_settings({"y": 2, "x": 1})
    assert digest_of_settings({"x": 1}) != digest_of_settings({"x": 2})
