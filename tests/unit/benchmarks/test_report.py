"""The table says what the results say."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.serving import report, system
from benchmarks.serving.bars import Limit

PROBE = {"2": {"read_gb_s": 10e-9, "int8_gmac_s": 1000e-9}}  # 10 bytes and 1000 products a second
CARD = {"cpu": "Test CPU", "cores": 2, "isa": ["avx2"], "date": "2026-01-02T03:04:05+00:00", "probe": PROBE}
FACTS = {"layer_macs": 100, "head_macs": 0, "bytes": 10}
WORK = {"prompt_tokens": 10, "output_tokens": 4, "requests": 1, "steps": 3}  # at least 1 + 3 seconds
SMALL = "SmolLM2-135M-Instruct.Q4_1.gguf"


def numbers(value: float, wall: float = 10.0) -> dict[str, Any]:
    return {"out_tok_s": value, "in_tok_s": value, "req_s": value, "wall_s": wall, "requests": 4}


def results(**rows: dict[str, Any]) -> dict[str, Any]:
    work = {name: WORK for name in rows if name != "mixed"}
    scales = dict.fromkeys(rows, 1.0)
    model = {"facts": FACTS, "rows": rows, "work": work, "scales": scales, "system": {}}
    return {"machine": CARD, "models": {SMALL: model}}


def test_ratios_bars_and_floor_in_one_line() -> None:
    got = report.table(results(batch={"sglang": numbers(900), "llama.cpp": numbers(150)}))
    line = next(line for line in got.splitlines() if "batch" in line)
    assert line.split() == ["batch,", "output", "tok/s", "900", "40%", "150", "6.00×", "≥", "4.5", "met"]
    assert "OpenVINO" not in got


def test_a_missed_bar_and_an_absent_peer() -> None:
    got = report.table(results(batch={"sglang": numbers(500), "llama.cpp": numbers(150)}), ["install it"])
    assert "3.33×  ≥ 4.5 missed" in got
    assert got.endswith("install it")


@pytest.mark.parametrize(
    ("ratio", "bar", "said"), [(2.2, 2.2, "≥ 2.2 met"), (2.19, 2.2, "≥ 2.2 missed"), (None, 2.2, ""), (3.0, None, "")]
)
def test_verdicts(ratio: float | None, bar: float | None, said: str) -> None:
    assert report.ratio_verdict(ratio, bar) == said


def test_limits() -> None:
    assert Limit(3.0, "s").met(2.9)
    assert not Limit(3.0, "s").met(3.1)
    assert not Limit(0.92, "", least=True).met(0.91)
    given = results(batch={})
    given["models"][SMALL]["system"] = {"ready": {"sglang": 3.4, "llama.cpp": 0.8}}
    line = next(line for line in report.table(given).splitlines() if "ready" in line)
    assert line.split() == ["ready,", "s", "3.40", "–", "≤", "3", "missed", "0.80", "–"]


def test_limits_that_follow_from_other_rows() -> None:
    batch = {"sglang": numbers(950), "Engine": numbers(1000)}
    mixed = {"sglang": {"itl_p50": 0.02, "itl_p99": 0.03}, "llama.cpp": {"itl_p50": 0.1, "itl_p99": 0.5}}
    given = results(batch=batch, mixed=mixed)
    given["models"][SMALL]["steps"] = {"decode 1": {"step": 1.25}}
    lines = [" ".join(line.split()) for line in report.table(given).splitlines()]
    assert "http / Engine 0.95 – ≥ 0.92 met – –" in lines
    assert "itl p99 / p50, prefills arriving, × 1.50 – ≤ 2 met 5.00 –" in lines
    assert "decode step at batch 1, of the memory floor 0.80 – ≥ 0.75 met – –" in lines


def test_columns_line_up_under_their_heads() -> None:
    got = report.align([["", "ours", "x"], ["Model"], ["row", "1", "22"]])
    assert got == ["       ours   x", "Model", "  row     1  22"]


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (1234.5, "1,234"), (99.96, "100.0"), (45.67, "45.7"), (1.234, "1.23")]
)
def test_three_digits(value: float | None, text: str) -> None:
    assert report.number(value) == text


def test_merging_replaces_rows_and_keeps_the_rest() -> None:
    old = results(batch={"sglang": numbers(1)}, single={"sglang": numbers(2)})
    new = results(batch={"sglang": numbers(3)})
    rows = report.merge(old, new)["models"][SMALL]["rows"]
    assert rows["batch"]["sglang"]["out_tok_s"] == 3
    assert rows["single"]["sglang"]["out_tok_s"] == 2


def test_other_machines_are_not_mixed() -> None:
    old, new = results(single={"sglang": numbers(2)}), results(batch={"sglang": numbers(3)})
    old["machine"] = {**CARD, "cpu": "Another"}
    assert report.merge(old, new) is new


def test_a_share_of_the_requests_is_said() -> None:
    given = results(batch={"sglang": numbers(900)})
    given["models"][SMALL]["scales"]["batch"] = 0.5
    assert "batch, output tok/s (scale 0.5)" in report.table(given)


def test_named_value() -> None:
    assert system.named_value("batch us\n  132 7\n   32  212.5 300\n", "32") == 212.5
    with pytest.raises(ValueError, match="no line begins with 'b'"):
        system.named_value("a 1", "b")


def test_the_better_probe_counts() -> None:
    slow = {"1": {"read_gb_s": 20.0, "int8_gmac_s": 90.0, "int8_unit": "avx2"}}
    fast = {"1": {"read_gb_s": 18.0, "int8_gmac_s": 120.0, "int8_unit": "avx2"}}
    assert report.best_rates(slow, fast) == {"1": {"read_gb_s": 20.0, "int8_gmac_s": 120.0, "int8_unit": "avx2"}}
    assert report.best_rates(None, fast) == fast
