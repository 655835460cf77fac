"""Measure how far the served distributions are from float32, beside llama.cpp on the same files.

    python -m benchmarks.accuracy                              the three small models, ours and llama.cpp
    python -m benchmarks.accuracy --kv float32,bfloat16,int8   other KV types of ours besides the default
    python -m benchmarks.accuracy --quantization int8,int4     the weights as a float32 folder, quantized at load
    python -m benchmarks.accuracy --models FILE.gguf --text FILE.txt --windows 4

Every side reads the same windows of tokens. The reference is transformers on the file's dequantized weights in float32.
The exit status is 1 if a bar is missed: perplexity within 0.5 % of float32, and a mean KL divergence to float32 that is
no larger than llama.cpp's.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from benchmarks.accuracy import report
from benchmarks.accuracy.llama_cpp import INSTALL, LlamaCpp, find_library
from benchmarks.accuracy.native import Native
from benchmarks.accuracy.reference import Reference
from benchmarks.accuracy.score import Score
from benchmarks.accuracy.text import Windows, cut_windows, read_text
from sglang.executor.host import cores

CACHE = Path(os.environ.get("SGLANG_TEST_MODELS", Path.home() / ".cache" / "sglang-test-models"))
MODELS = ("smollm2", "gemma3", "qwen2.5")
CHUNK = 256
"""Tokens of one call: a prompt in chunks, as a server computes it."""


class Side(Protocol):
    def logits(self, ids: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.float32]]: ...


@dataclass
class Entry:
    """One side of the comparison for one model."""

    name: str
    side: Side
    settings: dict[str, Any] = field(default_factory=dict)
    score: Score = field(default_factory=Score)


def main() -> int:
    args = parse()
    source, text = read_text(args.text)
    results = []
    for model in args.models or installed():
        windows = cut_windows(model, text, source, args.windows, args.length)
        with contextlib.ExitStack() as stack:
            reference = Reference(model, CHUNK, cores())
            entries = [*ours(args, model, reference, stack), *peers(args, model, stack)]
            compare(model.name, reference, entries, windows)
        results.append(report.result(model, windows, entries))
        print(report.table(results[-1]), flush=True)
    if args.write:
        print(f"written to {report.write(results, args.write)}")
    return 0 if all(report.passed(result) for result in results) else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.accuracy", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", nargs="+", type=Path, help=".gguf files (default: the test models)")
    parser.add_argument("--text", type=Path, help="a UTF-8 file (default: prose of Python's manual)")
    parser.add_argument("--windows", type=int, default=10)
    parser.add_argument("--length", type=int, default=1024, help="tokens of a window")
    parser.add_argument("--kv", type=comma_list, default=[], help="more KV types of ours, comma-separated")
    parser.add_argument("--quantization", type=comma_list, default=[], help="int8 and int4, comma-separated")
    parser.add_argument(
        "--flash", type=comma_list, default=["on", "off"], help="llama.cpp's attention: on, off or both"
    )
    parser.add_argument("--no-peers", action="store_true", help="ours alone")
    parser.add_argument("--write", type=Path, default=report.RESULTS, help="folder of the JSON file")
    parser.add_argument("--no-write", dest="write", action="store_const", const=None)
    return parser.parse_args()


def comma_list(text: str) -> list[str]:
    return [item for item in text.split(",") if item]


def installed() -> list[Path]:
    """The test models that are in the cache; the tests put them there."""
    found = [file for name in MODELS for file in sorted((CACHE / name).glob("*.gguf"))]
    if not found:
        raise SystemExit(f"no models in {CACHE}: run the tests once, or name files with --models")
    return found


def ours(args: argparse.Namespace, model: Path, reference: Reference, stack: contextlib.ExitStack) -> Iterator[Entry]:
    settings: list[dict[str, Any]] = [{}, *({"kv_cache_dtype": kv} for kv in args.kv)]
    for flags in settings:
        yield Entry(named("sglang", flags), Native(model, args.length, CHUNK, **flags), flags)
    if args.quantization:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        reference.save(folder)
        for kind in args.quantization:
            flags = {"quantization": kind}
            yield Entry(named("sglang", flags), Native(folder, args.length, CHUNK, **flags), flags)


def peers(args: argparse.Namespace, model: Path, stack: contextlib.ExitStack) -> Iterator[Entry]:
    if args.no_peers:
        return
    if find_library() is None:
        print(f"llama.cpp is left out: {INSTALL}", file=sys.stderr)
        return
    for flash in args.flash:
        side = stack.enter_context(LlamaCpp(model, args.length, CHUNK, cores(), flash=flash))
        yield Entry(named("llama.cpp", {"-fa": flash}), side, {"library": side.info(), "flash_attention": flash})


def named(name: str, flags: Mapping[str, Any]) -> str:
    return " ".join([name, *(f"{key} {value}" for key, value in flags.items())])


def compare(title: str, reference: Side, entries: list[Entry], windows: Windows) -> None:
    """Score every entry against the reference, chunk by chunk, so that no more than a chunk's logits are held."""
    bar = tqdm(windows.ids, desc=title, unit="window", disable=not sys.stderr.isatty())
    for ids in bar:
        streams = [entry.side.logits(ids) for entry in entries]
        for at, expected in zip(range(0, len(ids), CHUNK), reference.logits(ids), strict=True):
            targets = ids[at + 1 : at + 1 + CHUNK]
            for entry, stream in zip(entries, streams, strict=True):
                entry.score.add(expected, next(stream), targets)


if __name__ == "__main__":
    raise SystemExit(main())
