"""Results → rows → one table. Pure: the results file is all that is needed.

    python -m benchmarks.serving.report benchmarks/results/X.json       the table of an earlier run

A results file holds ``machine`` (the card) and ``models``: file name → ``facts`` (of the weights), ``rows`` (workload →
contender → numbers), ``scales`` (workload → share of its requests that was sent), ``work`` (workload → what it can't
avoid), ``steps`` (of the model alone) and ``system`` (name of a limit → contender → value).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.serving.bars import LIMITS, OPENVINO_RATIOS, RATIOS, ratios_for
from benchmarks.serving.floor import Limits, ModelFacts, Work, floor_seconds, limits_of
from benchmarks.serving.workloads import WORKLOADS

OURS, ENGINE, LLAMA_CPP, OPENVINO = "sglang", "Engine", "llama.cpp", "OpenVINO int8"
PEERS = {LLAMA_CPP: RATIOS, OPENVINO: OPENVINO_RATIOS}
Results = dict[str, Any]
Numbers = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One line: ours, how near the floor, and for each peer its value, the ratio and what the bar says of it."""

    what: str
    ours: str
    share: str
    peers: dict[str, tuple[str, str, str]]
    bar: str = ""


def ratio_verdict(ratio: float | None, bar: float | None) -> str:
    """How a ratio stands to its bar: "≥ 4.5 met", "≥ 4.5 missed", or "" when one of both is not there."""
    if ratio is None or bar is None:
        return ""
    return f"≥ {bar:g} {'met' if ratio >= bar else 'missed'}"


def speed(numbers: Numbers | None, workload: str) -> float | None:
    """The number that counts for a workload; None when it was not measured."""
    if numbers is None:
        return None
    value = numbers[WORKLOADS[workload].measure]
    return None if value is None else float(value)


def floor_share(numbers: Numbers | None, result: Results, workload: str, limits: Limits | None) -> float | None:
    """Least seconds ÷ seconds taken; None when one is unknown."""
    if numbers is None or limits is None:
        return None
    least = floor_seconds(ModelFacts(**result["facts"]), Work(**result["work"][workload]), limits)
    return least / float(numbers["wall_s"])


def rows_of(model: str, result: Results, limits: Limits | None) -> list[Row]:
    """All rows of one model: workloads first, then the limits that the system has to keep."""
    return [
        *(_speed_row(Path(model), name, result, limits) for name in WORKLOADS if name in result["work"]),
        *_limit_rows({**result["system"], **_derived(result, limits)}),
    ]


def _speed_row(model: Path, name: str, result: Results, limits: Limits | None) -> Row:
    contenders: dict[str, Numbers] = result["rows"][name]
    mine = speed(contenders.get(OURS), name)
    peers = {}
    for peer, table in PEERS.items():
        theirs = speed(contenders.get(peer), name)
        ratio = mine / theirs if mine and theirs else None
        verdict = ratio_verdict(ratio, ratios_for(model, table).get(name))
        peers[peer] = (number(theirs), f"{ratio:.2f}×" if ratio else "–", verdict)
    share = floor_share(contenders.get(OURS), result, name, limits)
    scale = result["scales"][name]
    what = f"{name}, {WORKLOADS[name].unit}" + (f" (scale {scale:g})" if scale != 1 else "")
    return Row(what, number(mine), f"{share:.0%}" if share else "–", peers)


def _derived(result: Results, limits: Limits | None) -> dict[str, dict[str, float]]:
    """Limits that follow from what was measured for other rows."""
    derived: dict[str, dict[str, float]] = {}
    batch, mixed = result["rows"].get("batch", {}), result["rows"].get("mixed", {})
    if OURS in batch and ENGINE in batch:
        derived["http / Engine"] = {OURS: batch[OURS]["out_tok_s"] / batch[ENGINE]["out_tok_s"]}
    if mixed:
        ratios = {who: numbers["itl_p99"] / numbers["itl_p50"] for who, numbers in mixed.items()}
        derived["itl p99 / p50, prefills arriving"] = ratios
    if limits is not None and "steps" in result:
        least = result["facts"]["bytes"] / limits.read
        derived["decode step at batch 1, of the memory floor"] = {OURS: least / result["steps"]["decode 1"]["step"]}
    return derived


def _limit_rows(system: dict[str, dict[str, float]]) -> list[Row]:
    rows = []
    for name, limit in LIMITS.items():
        values = system.get(name)
        if not values:
            continue
        mine = values.get(OURS)
        sign = "≥" if limit.least else "≤"
        bar = f"{sign} {limit.bound:g} {'met' if limit.met(mine) else 'missed'}" if mine is not None else ""
        peers = {peer: (number(values.get(peer)), "–", "") for peer in PEERS}
        rows.append(Row(f"{name}, {limit.unit}" if limit.unit else name, number(mine), "–", peers, bar))
    return rows


def number(value: float | None) -> str:
    """Three digits that matter; "–" for nothing."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(results: Results, missing: Sequence[str] = ()) -> str:
    """The one table, for a terminal of about 120 columns. ``missing``: what would bring the absent peers."""
    shown = [peer for peer in PEERS if any(_took_part(peer, result) for result in results["models"].values())]
    head = ["", OURS, "of floor", "bar"]
    for peer in shown:
        head += [peer, "ratio", "bar"]
    lines: list[list[str]] = [head]
    for model, result in results["models"].items():
        lines.append([Path(model).stem])
        for row in rows_of(model, result, limits_of(results["machine"])):
            lines.append([row.what, row.ours, row.share, row.bar, *(cell for p in shown for cell in row.peers[p])])
    return "\n".join([machine_line(results["machine"]), "", *align(lines), *missing])


def _took_part(peer: str, result: Results) -> bool:
    return any(peer in contenders for contenders in [*result["rows"].values(), *result["system"].values()])


def align(lines: list[list[str]]) -> list[str]:
    """Columns as wide as they need: the first to the left, numbers to the right. One cell alone is a heading."""
    columns = max(map(len, lines))
    full = [line for line in lines if len(line) > 1]
    widths = [max((len(line[at]) for line in full if at < len(line)), default=0) for at in range(columns)]
    text = []
    for line in lines:
        if len(line) == 1:
            text.append(line[0])
            continue
        cells = [cell.ljust(w) if at == 0 else cell.rjust(w) for at, (cell, w) in enumerate(zip(line, widths))]  # noqa: B905
        text.append("  " + "  ".join(cells).rstrip())
    return text


def machine_line(card: dict[str, Any]) -> str:
    """The machine card in one line."""
    parts = [card["cpu"], f"{card['cores']} cores", card["date"][:10]]
    widest = [flag for flag in ("avx512_vnni", "avx_vnni", "avx2", "asimddp") if flag in card["isa"]]
    parts[2:2] = widest[:1]
    for threads, rates in (card.get("probe") or {}).items():
        rates_text = f"{rates['read_gb_s']:g} GB/s read, {rates['int8_gmac_s']:g} GMAC/s int8"
        parts.append(f"{threads} thread{'s' if threads != '1' else ''}: {rates_text}")
    return " · ".join(parts)


def merge(old: Results | None, new: Results) -> Results:
    """``new`` laid over ``old``: rows that were measured again replace the old ones, the rest stays.

    Rows of another machine are not kept: what is compared must be comparable.
    """
    if old is None or old["machine"]["cpu"] != new["machine"]["cpu"]:
        return new
    merged = {**old, **new, "models": dict(old["models"])}
    merged["machine"] = {
        **new["machine"],
        "probe": best_rates(old["machine"].get("probe"), new["machine"].get("probe")),
    }
    for model, result in new["models"].items():
        before = old["models"].get(model)
        if before is None:
            merged["models"][model] = result
            continue
        merged["models"][model] = {
            **before,
            **result,
            "rows": {**before["rows"], **result["rows"]},
            "work": {**before["work"], **result["work"]},
            "scales": {**before["scales"], **result["scales"]},
            "system": {**before["system"], **result["system"]},
        }
    return merged


def best_rates(one: dict[str, Any] | None, other: dict[str, Any] | None) -> dict[str, Any]:
    """The higher of each rate: a probe can be disturbed, it can't be too fast."""
    best: dict[str, Any] = {}
    for probe in (one or {}, other or {}):
        for threads, rates in probe.items():
            known = best.setdefault(threads, {})
            for name, value in rates.items():
                known[name] = max(value, known[name]) if isinstance(known.get(name), float) else value
    return best


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(table(json.loads(Path(name).read_text())))
