"""Measure this server and the installed peers on the same workloads in one run; print one table, keep the JSON.

    make bench                                               everything
    make bench ARGS="--workloads single,batch --scale 0.25"  some of it, a quarter of the requests
    make bench ARGS="--into benchmarks/results/X.json --workloads chat"   measure one row again
    make bench ARGS="--url http://127.0.0.1:30000"           a server that runs already, instead of starting one

For each workload all contenders follow each other directly, so that a machine whose speed drifts is fair to all.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import machine, peers
from benchmarks.serving import report, system
from benchmarks.serving.bars import OPENVINO_RATIOS
from benchmarks.serving.contenders import (
    Contender,
    HttpServer,
    InProcess,
    Measured,
    RunningServer,
    sglang_engine,
    sglang_server,
    wait_for_calm,
)
from benchmarks.serving.floor import Work, distinct_tokens, model_facts
from benchmarks.serving.workloads import WORKLOADS, Workload
from sglang.formats.embedded import EMBEDDED_HELP, find_embedded_model
from sglang.text.tokenizer import load_tokenizer

RESULTS = Path(__file__).resolve().parents[1] / "results"
SYSTEM_PARTS = ("steps", "start", "overhead")
HTTP_ONLY = ("mixed",)
BUSY = 0.1
"""Cores that others may use before a measurement is called disturbed."""


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.splitlines()[0])
    everything = [*WORKLOADS, *SYSTEM_PARTS]
    parser.add_argument("--workloads", default=",".join(everything), help=f"some of {','.join(everything)}")
    parser.add_argument("--model", action="append", type=Path, help="GGUF file; default: the embedded model")
    parser.add_argument("--scale", type=float, default=1.0, help="share of each workload's requests to send")
    parser.add_argument("--seed", default="0", help="fixes the prompts")
    parser.add_argument("--url", default="", help="measure the server at this address instead of starting one")
    parser.add_argument("--peers", default="llama.cpp,openvino", help="who to compare with; '' for nobody")
    parser.add_argument("--flags", default="", help="more flags for this server, e.g. '--chunked-prefill-size 256'")
    parser.add_argument("--patience", type=float, default=20, help="seconds to wait for an idle machine each time")
    parser.add_argument("--tries", type=int, default=2, help="measurements at most while others disturb them")
    parser.add_argument("--into", type=Path, help="results file to write; rows it has already are kept or replaced")
    args = parser.parse_args(argv)
    args.workloads = [name for name in args.workloads.split(",") if name]
    args.peers = [name for name in args.peers.split(",") if name]
    for kind, given, known in (("workload", args.workloads, everything), ("peer", args.peers, list(peers.PEERS))):
        if unknown := [name for name in given if name not in known]:
            parser.error(f"unknown {kind} {', '.join(unknown)}: choose from {', '.join(known)}")
    if not args.model:
        embedded = find_embedded_model()
        if embedded is None:
            parser.error(f"no --model given, and the embedded model is not there: {EMBEDDED_HELP}")
        args.model = [embedded]
    return args


class Bench:
    """One model's measurements. ``done(result)`` is called after each, so that nothing is lost on the way."""

    def __init__(self, model: Path, args: argparse.Namespace, card: dict[str, Any]) -> None:
        self.model, self.args, self.card = model, args, card
        self.tokenizer = load_tokenizer(model)
        self.contenders = self._contenders()
        self.engine = None if args.url else sglang_engine(model)
        self.result: report.Results = {
            "file": str(model.name),
            "seed": args.seed,
            "facts": dataclasses.asdict(model_facts(model)),
            "rows": {},
            "work": {},
            "scales": {},
            "system": {},
        }

    def _contenders(self) -> list[Contender]:
        args = self.args
        ours: Contender = (
            RunningServer(report.OURS, args.url, "") if args.url else sglang_server(self.model, args.flags.split())
        )
        found: list[Contender] = [ours]
        threads = self.card["cores"]
        if "llama.cpp" in args.peers and peers.llama_cpp_works():
            found.append(system.llama_cpp_server(self.model, threads))
        known = self.model.stem.lower() in OPENVINO_RATIOS
        if "openvino" in args.peers and known and peers.openvino_works() and peers.llama_cpp_works():
            python = str(peers.python_of("openvino"))
            file = str(peers.q8_copy(self.model))
            command = [python, "benchmarks/serving/openvino_driver.py", file, "--threads", str(threads)]
            found.append(InProcess(report.OPENVINO, command))
        return found

    async def workload(self, name: str) -> None:
        """Measure all contenders; again while others disturb it, at most ``--tries`` times; the calmest try counts."""
        contenders = [c for c in self.contenders if name not in HTTP_ONLY or not isinstance(c, InProcess)]
        if name == "batch" and self.engine is not None:
            contenders.insert(1, self.engine)
        calmest = float("inf")
        for number in range(self.args.tries):
            row = await self._measure_all(WORKLOADS[name], contenders, number)
            disturbed = max(numbers.get("other_cores", 0.0) for numbers in row.values())
            if disturbed < calmest:
                calmest = disturbed
                self.result["rows"][name], self.result["scales"][name] = row, self.args.scale
            if disturbed <= BUSY:
                break

    async def _measure_all(self, workload: Workload, contenders: list[Contender], number: int) -> dict[str, Any]:
        row = {}
        seed = self.args.seed + "'" * number  # fresh prompts: caches know the old ones
        for contender in contenders:
            await wait_for_calm(self.args.patience, BUSY)
            measured = await contender.measure(workload, seed, self.args.scale)
            row[contender.name] = measured.numbers
            if measured.prompts and workload.name not in self.result["work"] and workload.name != "mixed":
                self.result["work"][workload.name] = dataclasses.asdict(self._work(workload, measured))
            self._progress(workload.name, contender.name, measured.numbers)
        return row

    def _work(self, workload: Workload, measured: Measured) -> Work:
        encode = self.tokenizer.encode_batch
        return Work(
            prompt_tokens=distinct_tokens(encode(measured.prompts), encode(measured.warm) if measured.warm else []),
            output_tokens=measured.numbers["out_tok"],
            requests=measured.numbers["requests"],
            steps=workload.steps(measured.numbers["requests"]),
        )

    def _progress(self, name: str, who: str, numbers: dict[str, Any]) -> None:
        value = report.number(report.speed(numbers, name))
        note = f"{numbers['wall_s']:6.1f} s"
        if "client_cores" in numbers:
            note += f", generator {numbers['client_cores']:.1%} of a core"
        if numbers["short"] or numbers["uncounted"]:
            note += f", ! {numbers['short']} shorter than asked, {numbers['uncounted']} without token counts"
        if numbers.get("other_cores", 0) > BUSY:
            note += f", ! other processes used {numbers['other_cores']:.2f} cores"
        print(f"  {name:9} {who:14} {value:>8} {WORKLOADS[name].unit:13} ({note})", file=sys.stderr, flush=True)

    async def system_part(self, name: str) -> None:
        await wait_for_calm(self.args.patience, BUSY)
        if name == "steps":
            self.result["steps"] = await system.model_steps(self.model)
        elif name == "start":
            self.result["system"].update(await system.start_and_memory(self.model, self.contenders, self.card["cores"]))
        elif name == "overhead":
            self.result["system"].update(await system.step_overhead(self.model))

    def stop(self) -> None:
        for contender in self.contenders:
            if isinstance(contender, HttpServer) and contender.ready_seconds:
                self.result.setdefault("ready_s", {})[contender.name] = contender.ready_seconds
            contender.stop()


async def run(args: argparse.Namespace) -> Path:
    """Measure everything asked for; the path of the results file, which is complete after each measurement."""
    print("probing the machine …", file=sys.stderr, flush=True)
    await wait_for_calm(args.patience, BUSY)
    card = machine.machine_card()
    path = args.into or RESULTS / f"serving-{card['date'][:10]}-{slug(card)}.json"
    for model in args.model:
        bench = Bench(model, args, card)
        print(f"{model.name}:", file=sys.stderr, flush=True)
        try:
            for name in args.workloads:
                await (bench.system_part(name) if name in SYSTEM_PARTS else bench.workload(name))
                save(path, {"machine": card, "models": {model.name: bench.result}})
        finally:
            bench.stop()
        save(path, {"machine": card, "models": {model.name: bench.result}})
    return path


def slug(card: dict[str, Any]) -> str:
    """The CPU as part of a file name."""
    widest = next((flag for flag in ("avx512_vnni", "avx_vnni", "avx2", "asimddp") if flag in card["isa"]), "plain")
    name = re.sub(r"[^a-z0-9]+", "-", card["cpu"].split("(")[0].lower()).strip("-")
    return f"{name}-{card['cores']}-{widest.replace('_', '-')}"


def save(path: Path, new: report.Results) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    old = json.loads(path.read_text()) if path.exists() else None
    fresh = path.with_suffix(".part")
    fresh.write_text(json.dumps(report.merge(old, new), indent=1) + "\n")
    fresh.rename(path)


def missing_peers(args: argparse.Namespace) -> list[str]:
    absent = [name for name in args.peers if not peers.PEERS[name].works()]
    return [
        f"{name} is not installed and was left out; it comes with: {peers.install_command(name)}" for name in absent
    ]


def main() -> None:
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers are stopped on the way out
    started = time.perf_counter()
    runner = asyncio.run
    with contextlib.suppress(ImportError):  # half the generator's cost
        import uvloop

        runner = uvloop.run
    path = runner(run(args))
    print(report.table(json.loads(path.read_text()), missing_peers(args)))
    print(f"{time.perf_counter() - started:.0f} s; kept in {os.path.relpath(path)}", file=sys.stderr)


if __name__ == "__main__":
    main()
