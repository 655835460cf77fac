"""Microbenchmarks of the native operations: time, speed, and share of what the machine could do at best.

    python benchmarks/ops.py [--isa avx2] [--threads 2] [--model smollm2] [--formats Q4_1,bf16] [--json FILE]

The floor of an operation is the longer of two times: reading its bytes (weights, keys and values) once from memory,
and its multiply-adds at the unit's own speed; both speeds are measured first, by loops that do nothing else. Weights
are copied until they are several times the caches, so one row reads memory as a real decode step does. Operations that
only move numbers find them in the caches, as in a real step, so their share can exceed 100 %.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
TYPES = {"f32": (0, 1, 4), "f16": (1, 1, 2), "bf16": (30, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20),
         "Q5_0": (6, 32, 22), "Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144), "Q6_K": (14, 256, 210)}  # fmt: skip
"""GGUF type number, values of a block, bytes of a block."""
DENSE = ("f32", "f16", "bf16")
CACHE_BYTES = 160 << 20
MAX_TOKENS = 512
SECONDS = 0.1
REPEATS = 64
"""Of operations that take microseconds, in one program."""


@dataclass(frozen=True)
class Model:
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int


MODELS = {
    "smollm2": Model(576, 1536, 9, 3, 64, 49152),
    "qwen2.5": Model(896, 4864, 14, 2, 64, 151936),
    "gemma3": Model(640, 2048, 4, 1, 256, 262144),
}


@dataclass
class Line:
    op: str
    shape: str
    rows: int
    seconds: float
    bytes: float
    macs: float
    share: float = 0.0


def load() -> Any:
    """The compiled module, as installed or from the folder SGLANG_NATIVE_BUILD."""
    build = os.environ.get("SGLANG_NATIVE_BUILD")
    if build is None:
        return importlib.import_module("sglang._native")
    sys.path.insert(0, build)
    return importlib.import_module("_native")


class Bench:
    """Makes programs of single operations, runs them, and keeps a line for each."""

    def __init__(self, native: Any, model: Model, threads: int, isa: str) -> None:
        self.native, self.model, self.threads, self.isa = native, model, threads, isa
        self.pool = native.ThreadPool(threads)
        self.speeds: dict[str, float] = native.probe(self.pool, isa)
        self.rng = np.random.default_rng(0)
        self.lines: list[Line] = []

    def program(self) -> Any:
        return self.native.Program(MAX_TOKENS, self.model.vocab, isa=self.isa)

    def weights(self, format: str, n: int, k: int) -> Iterator[Any]:
        """Copies of one matrix until they exceed the caches; small random numbers."""
        number, values, size = TYPES[format]
        arena = self.native.WeightArena()
        rows = self.rng.integers(0, 60, n * k // values * size, dtype=np.uint8)  # as float16 or float32: below 2
        while arena.used < CACHE_BYTES:
            yield self.native.pack(self.pool, number, rows, n, k, arena, self.isa)

    def activations(self, program: Any, width: int, format: str) -> tuple[int, int]:
        """A filled buffer in the form that weights of ``format`` take."""
        buffer = program.add_floats(width) if format in DENSE else program.add_blocks(width)
        program.write(buffer, self.rng.standard_normal((MAX_TOKENS, width)).astype(np.float32))
        return (buffer, -1) if format in DENSE else (-1, buffer)

    def best(self, program: Any, step: tuple[Array, ...], **wanted: Any) -> float:
        """Best seconds of one operation of a program that repeats it."""
        count = len(program.times())
        return self.clock(lambda: program.run(self.pool, *step, **wanted)) / count

    def clock(self, call: Callable[[], object]) -> float:
        """Best seconds; of one thread its own processor time, so that a busy machine matters less."""
        now = time.thread_time if self.threads == 1 else time.perf_counter
        call()
        best, end = 1e9, time.perf_counter() + SECONDS
        while time.perf_counter() < end or best == 1e9:
            start = now()
            call()
            best = min(best, now() - start)
        return best

    def keep(self, op: str, shape: str, rows: int, seconds: float, size: float, macs: float, unit: str) -> None:
        floor = max(size / self.speeds["read_bytes_per_s"], macs / self.speeds[unit])
        self.lines.append(Line(op, shape, rows, seconds, size, macs, floor / seconds))
        print(format_line(self.lines[-1]), flush=True)

    # Operations ------------------------------------------------------------------------------------------------------

    def linear(self, format: str, n: int, k: int) -> None:
        program = self.program()
        given, out = self.activations(program, k, format), program.add_floats(n)
        for weight in self.weights(format, n, k):
            program.add_linear(given, [(weight, None, 0)], out)
        for rows in (1, 4, 32, 512):
            seconds = self.best(program, tokens(rows))
            self.keep(
                f"linear {format}", f"{n}x{k}", rows, seconds, weight.nbytes, float(rows * n * k), unit_of(format)
            )

    def gated(self, format: str) -> None:
        k, n = self.model.hidden, self.model.inner
        program = self.program()
        given = self.activations(program, k, format)
        out = (program.add_floats(n), -1) if format in DENSE else (-1, program.add_blocks(n))
        packed = list(self.weights(format, n, k))
        for gate, up in zip(packed[::2], packed[1::2], strict=False):
            program.add_gated_linear(given, gate, up, "silu", out)
        for rows in (1, 4, 32, 512):
            seconds = self.best(program, tokens(rows))
            size, macs = 2 * packed[0].nbytes, 2.0 * rows * n * k
            self.keep(f"gate+up {format}", f"2x{n}x{k}", rows, seconds, size, macs, unit_of(format))

    def head(self, format: str) -> None:
        n, k = self.model.vocab, self.model.hidden
        program = self.program()
        x = program.add_floats(k)
        program.write(x, self.rng.standard_normal((MAX_TOKENS, k)).astype(np.float32))
        for weight in self.weights(format, n, k):
            program.add_head(x, np.ones(k, np.float32), 1e-5, weight)
        for rows, label, wanted in ((1, "argmax", {}), (32, "argmax", {}), (32, "logits", {"full_rows": 32})):
            step = (*tokens(rows)[:-1], np.arange(rows))
            seconds = self.best(program, step, **wanted)
            self.keep(
                f"head {format}", f"{n}x{k} {label}", rows, seconds, weight.nbytes, float(rows * n * k), unit_of(format)
            )

    def rowwise(self) -> None:
        """Operations that only move numbers: bytes are those read and written."""
        m = self.model
        width = m.hidden
        for rows in (1, 32, 512):
            program = self.program()
            x, add, out = program.add_floats(width), program.add_floats(width), program.add_blocks(width)
            for _ in range(REPEATS):
                program.add_norm(x, np.ones(width, np.float32), 1e-5, (-1, out), add)
            seconds = self.best(program, tokens(rows))
            self.keep("add+norm+int8", str(width), rows, seconds, rows * width * 13.5, 0.0, "f32_macs_per_s")
        for kv in ("float16", "int8"):
            qkv_width = (m.heads + 2 * m.kv_heads) * m.head_dim
            tables = np.ones((2, MAX_TOKENS, m.head_dim // 2), np.float32)
            for rows in (1, 512):
                program = self.program()
                pool = self.native.KvPool(MAX_TOKENS, m.kv_heads, m.head_dim, kv)
                qkv = program.add_floats(qkv_width)
                for _ in range(REPEATS):
                    program.add_rope_store(qkv, m.heads, pool, tables[0], tables[1])
                seconds = self.best(program, one_row(rows, rows))
                size = rows * (8 * qkv_width + 4.0 * m.kv_heads * m.head_dim)
                self.keep(f"rope+store {kv}", str(qkv_width), rows, seconds, size, 0.0, "f32_macs_per_s")

    def attention(self, kv: str, label: str, step: tuple[Array, ...], slots: int, pairs: int, reads: int) -> None:
        """``pairs`` of a query and a position it sees; ``reads``: positions to read once each."""
        m = self.model
        program = self.program()
        width = (m.heads + 2 * m.kv_heads) * m.head_dim
        qkv = program.add_floats(width)
        out = program.add_floats(m.heads * m.head_dim)
        program.write(qkv, self.rng.standard_normal((MAX_TOKENS, width)).astype(np.float32))
        pool_bytes = 0
        while pool_bytes < CACHE_BYTES:
            pool = self.native.KvPool(slots, m.kv_heads, m.head_dim, kv)
            program.add_attention(qkv, m.heads, pool, m.head_dim**-0.5, out=(out, -1))
            pool_bytes += pool.nbytes
        seconds = self.best(program, step)
        size = 2.0 * reads * m.kv_heads * m.head_dim * (1 if kv == "int8" else 2)
        macs = 2.0 * pairs * m.heads * m.head_dim
        self.keep(f"attention {kv}", label, len(step[0]), seconds, size, macs, "f32_macs_per_s")

    def sampling(self) -> None:
        n, vocab = 32, self.model.vocab
        sampler = self.native.Sampler(vocab, self.isa)
        logits = (self.rng.standard_normal((n, vocab)) * 3).astype(np.float32)
        for label, top_k, top_p in (("T=1", 0, 1.0), ("top_k 50", 50, 1.0), ("top_p 0.9", 0, 0.9)):
            seconds = self.clock(partial(
                sampler.sample, self.pool, logits, np.ones(n, np.float32), np.full(n, top_k), np.full(n, top_p),
                np.zeros(n), self.rng.random(n),
            ))  # fmt: skip
            self.keep("sample", f"{vocab} {label}", n, seconds, logits.nbytes, 0.0, "f32_macs_per_s")


def unit_of(format: str) -> str:
    return "f32_macs_per_s" if format in DENSE else "int8_macs_per_s"


def step_of(query_lens: Array, seq_lens: Array, table: Array) -> tuple[Array, ...]:
    """Arguments of a step without outputs."""
    spans = [np.arange(n - q, n) for q, n in zip(query_lens, seq_lens, strict=True)]
    positions = np.concatenate(spans)
    slots = np.concatenate([table[r, span] for r, span in enumerate(spans)]).astype(np.int64)
    ids, rows = np.zeros(len(positions), np.int64), np.arange(len(query_lens))
    return (ids, positions, slots, query_lens, seq_lens, rows, table, np.zeros(0, np.int64))


def one_row(new: int, length: int) -> tuple[Array, ...]:
    return step_of(np.array([new]), np.array([length]), np.arange(length, dtype=np.int32)[None])


def tokens(rows: int) -> tuple[Array, ...]:
    return one_row(rows, rows)


def decode(rows: int, length: int, shared: int) -> tuple[Array, ...]:
    """One new token for each row; the first ``shared`` positions have the same slots in all of them."""
    own = shared + np.arange(rows * (length - shared), dtype=np.int32).reshape(rows, -1)
    table = np.concatenate([np.tile(np.arange(shared, dtype=np.int32), (rows, 1)), own], axis=1)
    return step_of(np.ones(rows, np.int64), np.full(rows, length), np.ascontiguousarray(table))


def format_line(line: Line) -> str:
    speed = line.bytes / line.seconds / 1e9
    macs = f"{line.macs / line.seconds / 1e9:9.1f}" if line.macs else " " * 9
    return (
        f"{line.op:20} {line.shape:20} {line.rows:5} {line.seconds * 1e6:11.1f} {speed:8.1f} {macs} {line.share:7.0%}"
    )


def run(bench: Bench, formats: list[str]) -> None:
    m = bench.model
    width = (m.heads + 2 * m.kv_heads) * m.head_dim
    for format in formats:
        block = TYPES[format][1]
        for n, k in ((width, m.hidden), (m.hidden, m.heads * m.head_dim), (m.hidden, m.inner)):
            if k % block == 0:
                bench.linear(format, n, k)
        if m.hidden % block == 0:
            bench.gated(format)
            bench.head(format)
    bench.rowwise()
    for kv in ("float16", "int8"):
        bench.attention(kv, "decode 1 @ 1024", decode(1, 1024, 0), 1024, 1024, 1024)
        bench.attention(kv, "decode 32 @ 256", decode(32, 256, 0), 32 * 256, 32 * 256, 32 * 256)
        bench.attention(kv, "32 share 896+64", decode(32, 960, 896), 960 * 4, 32 * 960, 896 + 32 * 64)
        bench.attention(kv, "prefill 512", one_row(512, 512), 512, 512 * 513 // 2, 512)
        bench.attention(kv, "prefill 256 @ 1024", one_row(256, 1024), 1024, 256 * 897, 1024)
    bench.sampling()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--isa", default=None, help="instruction set (default: the best)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--model", choices=sorted(MODELS), default="smollm2")
    parser.add_argument("--formats", default="Q4_1,Q8_0,bf16", help=f"any of {', '.join(TYPES)}")
    parser.add_argument("--json", type=Path, default=None)
    args = parser.parse_args()
    native = load()
    isa = args.isa or native.instruction_sets()[0]
    bench = Bench(native, MODELS[args.model], args.threads, isa)
    speeds = {name: value / 1e9 for name, value in bench.speeds.items()}
    print(
        f"{isa}, {args.threads} threads: reads {speeds['read_bytes_per_s']:.1f} GB/s, multiplies "
        f"{speeds['int8_macs_per_s']:.0f} GMAC/s int8, {speeds['f32_macs_per_s']:.0f} GMAC/s float32\n"
    )
    print(f"{'operation':20} {'shape':20} {'rows':>5} {'us':>11} {'GB/s':>8} {'GMAC/s':>9} {'floor':>7}")
    run(bench, args.formats.split(","))
    if args.json is not None:
        args.json.write_text(json.dumps({"isa": isa, "threads": args.threads, "speeds": bench.speeds,
                                         "lines": [asdict(line) for line in bench.lines]}, indent=1))  # fmt: skip


if __name__ == "__main__":
    main()
