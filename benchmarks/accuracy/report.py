"""Results as a table and as JSON, with the bars they are held to: ``python -m benchmarks.accuracy.report FILE``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.accuracy.score import Scores, standard_error
from benchmarks.accuracy.sides import OURS, PEER, Side
from benchmarks.accuracy.text import Windows
from benchmarks.serving.__main__ import slug

RESULTS = Path(__file__).parent.parent / "results"
PERPLEXITY_BAR = 0.005
"""Relative difference to float32."""
PACKAGES = ("transformers", "gguf")
"""Whose versions count besides those of the machine card."""

Result = dict[str, Any]


def result(model: Path, windows: Windows, measured: Sequence[tuple[Side, Scores]]) -> Result:
    """Everything about one model. Each of our sides is held against the best of the peer's."""
    peers = [scores for side, scores in measured if side.name.startswith(PEER)]
    best = min(peers, key=lambda scores: float(scores.kl.mean()), default=None)
    sides = [
        {"name": side.name, "settings": side.settings, **scores.summary()}
        | (against(scores, best) if best is not None and side.name.startswith(OURS) else {})
        for side, scores in measured
    ]
    shape = {"windows": int(windows.ids.shape[0]), "length": int(windows.ids.shape[1])}
    text = {"source": windows.source, "sha256": windows.sha256, **shape}
    return {"model": model.name, "text": text, "sides": sides}


def against(scores: Scores, peer: Scores) -> dict[str, float]:
    """The divergence beside a peer's at the same positions."""
    gap = scores.kl - peer.kl
    ratio = float(scores.kl.mean() / peer.kl.mean())
    return {"kl_over_peer": float(gap.mean()), "kl_over_peer_error": standard_error(gap), "kl_ratio": ratio}


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
    card = machine.machine_card(with_probe=False)
    card["versions"] |= {name: found for name in PACKAGES if (found := machine.installed_version(name))}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"accuracy-{card['date'][:10]}-{slug(card)}.json"
    file.write_text(json.dumps({"machine": card, "models": list(results)}, indent=1) + "\n", encoding="utf-8")
    return file


if __name__ == "__main__":
    kept = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print("\n".join(table(one) for one in kept["models"]))
