"""A results file as one picture: a panel for each workload, a bar for each contender.

    python -m benchmarks.serving.plot benchmarks/results/X.json docs/images/performance.svg

Needs matplotlib: pip install '.[bench]'
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "sglang"  # the same numbers give the same file
import matplotlib.pyplot as plt  # noqa: E402

from benchmarks.serving import report  # noqa: E402
from benchmarks.serving.workloads import WORKLOADS  # noqa: E402

COLORS = {report.OURS: "#1b6ca8", report.LLAMA_CPP: "#b0b7bf", report.OPENVINO: "#d8a657"}
LABELS = {report.OURS: "this server", report.OPENVINO: "OpenVINO\nint8"}
TITLES = {
    "single": "single stream",
    "batch": "32 at once",
    "prefill": "prompts of 960 tokens",
    "fewshot": "shared prefix",
    "chat": "8 chats",
    "branch": "tree of thought",
}


def draw(results: dict[str, Any], model: str, target: Path) -> None:
    """The picture of one model; ``target`` says by its ending which kind of file."""
    rows = results["models"][model]["rows"]
    names = [name for name in TITLES if name in rows]
    figure, axes = plt.subplots(1, len(names), figsize=(1.75 * len(names) + 0.4, 2.9), squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        bars = {who: value for who in COLORS if (value := report.speed(rows[name].get(who), name)) is not None}
        drawn = axis.bar(range(len(bars)), list(bars.values()), color=[COLORS[who] for who in bars], width=0.7)
        axis.bar_label(drawn, [report.number(value) for value in bars.values()], fontsize=8, padding=2)
        axis.set_xticks(range(len(bars)), [LABELS.get(who, who) for who in bars], fontsize=6.5)
        axis.set_title(TITLES[name], fontsize=9)
        axis.set_ylabel(WORKLOADS[name].unit, fontsize=7, labelpad=1)
        axis.set_yticks([])
        axis.margins(y=0.16)
        axis.spines[["top", "right", "left"]].set_visible(False)
    card = results["machine"]
    caption = f"{Path(model).stem} · {card['cpu'].split(' (')[0]}, {card['cores']} cores · {card['date'][:10]}"
    figure.text(0.995, 0.01, caption, ha="right", fontsize=6.5, color="#666666")
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    figure.patch.set_facecolor("white")
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, metadata={"Date": None} if target.suffix == ".svg" else None, dpi=150)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description="draw a results file")
    parser.add_argument("results", type=Path)
    parser.add_argument("target", type=Path, help="picture to write: .svg or .png")
    parser.add_argument("--model", default="", help="file name of the model; default: the first")
    args = parser.parse_args()
    results = json.loads(args.results.read_text())
    model = args.model or next(iter(results["models"]))
    if model not in results["models"]:
        parser.error(f"no model {model!r} in {args.results}; it has {', '.join(results['models'])}")
    draw(results, model, args.target)


if __name__ == "__main__":
    main()
