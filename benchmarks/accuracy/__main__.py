"""Measure how far the served distributions are from float32, beside llama.cpp on the same files.

    python -m benchmarks.accuracy                              the three small models, ours and llama.cpp
    python -m benchmarks.accuracy --kv float32,bfloat16,int8   other KV types of ours besides the default
    python -m benchmarks.accuracy --quantization int8,int4     the weights as a float32 folder, quantized at load
    python -m benchmarks.accuracy --models FILE.gguf --text FILE.txt --windows 4

Every side reads the same windows of tokens. The reference is transformers on the file's dequantized weights in float32.
What was computed is kept (about 10 bytes for each weight), so an interrupted run goes on where it stopped, and after a
change of our code only our sides are measured again.
The exit status is 1 if a bar is missed: perplexity within 0.5 % of float32, and a mean KL divergence to float32 that is
no larger than llama.cpp's.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import transformers

from benchmarks.accuracy import report, sides, store
from benchmarks.accuracy.llama_cpp import INSTALL, find_library
from benchmarks.accuracy.reference import Reference
from benchmarks.accuracy.score import Scores, compare, join
from benchmarks.accuracy.text import Windows, cut_windows, read_text
from sglang.executor.host import cores

CACHE = Path(os.environ.get("SGLANG_TEST_MODELS", Path.home() / ".cache" / "sglang-test-models"))
MODELS = ("smollm2", "gemma3", "qwen2.5")


def main() -> int:
    args = parse()
    if not args.no_peers and find_library() is None:
        say(f"llama.cpp is left out: {INSTALL}")
    source, text = read_text(args.text)
    results = []
    for model in args.models or installed():
        windows = cut_windows(model, text, source, args.windows, args.length)
        results.append(measure(args, model, windows))
        print(report.table(results[-1]), flush=True)
    if args.write:
        print(f"written to {report.write(results, args.write)}")
    return 0 if all(report.passed(result) for result in results) else 1


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks.accuracy", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", type=Path, help=".gguf files (default: the test models)")
    parser.add_argument("--text", type=Path, help="a UTF-8 file (default: prose of Python's manual)")
    parser.add_argument("--windows", type=int, default=10)
    parser.add_argument("--length", type=int, default=1024, help="tokens of a window")
    parser.add_argument("--kv", type=comma_list, default=[], help="more KV types of ours, comma-separated")
    parser.add_argument("--quantization", type=comma_list, default=[], help="int8 and int4, comma-separated")
    parser.add_argument("--flash", type=comma_list, default=["on", "off"], help="llama.cpp's attention: on, off")
    parser.add_argument("--no-peers", action="store_true", help="ours alone")
    parser.add_argument("--keep", type=Path, default=store.FOLDER, help="folder of what was computed already")
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


def measure(args: argparse.Namespace, model: Path, windows: Windows) -> report.Result:
    """All sides of one model."""
    name = f"{model.stem}-{store.digest_of_files([model])}"
    kept = store.Store(args.keep / name / f"transformers-{transformers.__version__}")
    say(model.name)
    reference = Reference(model, kept, sides.CHUNK, cores())
    for number, ids in enumerate(windows.ids, 1):
        if reference.prepare(ids):
            say(f"  float32: window {number} of {len(windows.ids)}")
    reference.release()
    entries = list(sides.ours(model, reference.folder, args.length, args.kv, args.quantization))
    if not args.no_peers:
        entries += sides.llama_cpp(model, args.length, args.flash)
    return report.result(model, windows, [(side, scores(side, reference, windows, kept)) for side in entries])


def scores(side: sides.Side, reference: Reference, windows: Windows, kept: store.Store) -> Scores:
    """Of all windows; those that are kept are not computed again."""
    keys = [store.digest_of_ids(ids) for ids in windows.ids]
    missing = [number for number, key in enumerate(keys) if kept.get(side.digest, key) is None]
    if missing:
        with side.open() as logits:
            for number in missing:
                start, ids = time.perf_counter(), windows.ids[number]
                found = compare(reference.logits(ids), logits.logits(ids), ids[1:])
                kept.put(found.arrays(), side.digest, keys[number])
                say(f"  {side.name}: window {number + 1} of {len(keys)}, {time.perf_counter() - start:.1f} s")
    return join([Scores(**(kept.get(side.digest, key) or {})) for key in keys])


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
