"""Results as a table and as JSON, with the bars they are held to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import machine
from benchmarks.accuracy.text import Windows

if TYPE_CHECKING:
    from benchmarks.accuracy.__main__ import Entry

RESULTS = Path(__file__).parent.parent / "results"
PERPLEXITY_BAR = 0.005
"""Relative difference to float32."""
OURS, PEER = "sglang", "llama.cpp"

Result = dict[str, Any]


def result(model: Path, windows: Windows, entries: Sequence[Entry]) -> Result:
    """Everything about one model. Each of our sides is held against the best of the peer's."""
    sides = [{"name": entry.name, "settings": entry.settings, **entry.score.summary()} for entry in entries]
    peers = [entry for entry in entries if entry.name.startswith(PEER)]
    best = min(peers, key=lambda entry: float(entry.score.divergence().mean()), default=None)
    for side, entry in zip(sides, entries, strict=True):
        if best is not None and entry.name.startswith(OURS):
            gap = entry.score.divergence() - best.score.divergence()
            side["kl_over_peer"] = float(gap.mean())
            side["kl_over_peer_error"] = float(gap.std() / np.sqrt(len(gap)))
            side["kl_ratio"] = side["kl_mean"] / float(best.score.divergence().mean())
    shape = {"windows": int(windows.ids.shape[0]), "length": int(windows.ids.shape[1])}
    text = {"source": windows.source, "sha256": windows.sha256, **shape}
    return {"model": model.name, "text": text, "sides": sides}


def passed(result: Result) -> bool:
    """Whether our default settings, the first side, meet both bars (the second only where a peer was measured)."""
    side = result["sides"][0]
    return bool(abs(side["perplexity_change"]) <= PERPLEXITY_BAR and side.get("kl_over_peer", 0.0) <= 0.0)


def table(result: Result) -> str:
    first = result["sides"][0]
    lines = [
        f"{result['model']}: {first['tokens']} tokens, perplexity {first['reference_perplexity']:.4f} in float32",
        f"  {'side':<34}{'perplexity':>18}{'mean KL to float32':>24}{'median':>9}{'p99':>9}{'same top':>10}  vs peer",
    ]
    for side in result["sides"]:
        ratio = f"{side['kl_ratio']:.2f} x" if "kl_ratio" in side else ""
        change = f"{side['perplexity_change'] * 100:+.2f} ± {side['perplexity_change_error'] * 100:.2f} %"
        divergence = f"{side['kl_mean']:.6f} ± {side['kl_mean_error']:.6f}"
        lines.append(
            f"  {side['name']:<34}{change:>18}{divergence:>24}{side['kl_median']:>9.5f}{side['kl_p99']:>9.5f}"
            f"{side['same_top'] * 100:>8.2f} %  {ratio}"
        )
    lines.append(f"  bars: {'met' if passed(result) else 'MISSED'}")
    return "\n".join(lines)


def write(results: Sequence[Result], folder: Path) -> Path:
    """Keep the results of today with the machine they were measured on."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"accuracy-{date.today().isoformat()}.json"
    card = machine.machine_card(with_probe=False)
    file.write_text(json.dumps({"machine": card, "models": list(results)}, indent=1) + "\n", encoding="utf-8")
    return file
