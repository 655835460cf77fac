"""What grammars cost: masked against unmasked decoding, compile times, and the first token of others meanwhile.

    python benchmarks/grammar.py [--model FILE] [--batch 32] [--tokens 60] [--rounds 3]

Decoding runs executors and scheduler cores in this process. Compile times are those that a first request waits: probe
process and all.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sglang.config import model_files
from sglang.config.env import read_env
from sglang.config.resolve import resolve_args
from sglang.config.server_args import ServerArgs
from sglang.executor.batch import Executor
from sglang.executor.create import create_executor
from sglang.grammar.compiler import GrammarCompiler, make_compiler
from sglang.grammar.spec import GrammarOptions, GrammarSpec
from sglang.ipc.messages import TokenizedGenerateReqInput
from sglang.ipc.sampling_params import SamplingParams
from sglang.processes.scheduler.config import scheduler_config
from sglang.processes.scheduler.core import SchedulerCore

WIDE = {
    "type": "object",
    "properties": {
        f"property_{i}": [{"type": "string"}, {"type": "integer"}, {"type": "boolean"}, {"enum": ["a", "b"]}][i % 4]
        for i in range(200)
    },
    "required": [f"property_{i}" for i in range(200)],
    "additionalProperties": False,
}
NUMBERS = {"type": "array", "items": {"type": "integer"}, "minItems": 500, "maxItems": 600}

GRAMMARS: dict[str, dict[str, str]] = {
    "JSON, 200 properties": {"json_schema": json.dumps(WIDE)},
    "JSON, a list of integers": {"json_schema": json.dumps(NUMBERS)},
    "JSON, a long text": {"json_schema": json.dumps({"type": "string", "minLength": 4000})},
    "regex, letters": {"regex": "[a-z ]{2000}"},
}

COMPILED = {
    "regex [0-9]+": GrammarSpec("regex", "[0-9]+"),
    "JSON, 3 properties": GrammarSpec(
        "json_schema",
        json.dumps({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {}}}),
    ),
    "JSON, 200 properties": GrammarSpec("json_schema", json.dumps({**WIDE, "title": "again"})),
    "JSON, 200 properties with patterns": GrammarSpec(
        "json_schema",
        json.dumps(
            {
                "type": "object",
                "properties": {f"p{i}": {"type": "string", "pattern": f"^x{i}[a-z]+$"} for i in range(200)},
            }
        ),
    ),
}


class Replica:
    """A model with its own memory."""

    def __init__(self, args: ServerArgs, grammars: GrammarCompiler) -> None:
        model = model_files.model_config(args)
        self._executor: Executor = create_executor(args, model)
        self._config = scheduler_config(args, read_env(), model, self._executor.num_slots)
        self._grammars = grammars

    def core(self) -> SchedulerCore:
        return SchedulerCore(self._config, grammars=self._grammars)

    def turn(self, core: SchedulerCore) -> float:
        """Seconds of one step and all that belongs to it."""
        begin = time.perf_counter()
        batch = core.next_batch()
        if batch is not None:
            core.settle(batch, self._executor.run(batch))
        core.take_outputs()
        return time.perf_counter() - begin

    def fill(self, count: int, tokens: int, temperature: float, grammar: dict[str, str]) -> SchedulerCore:
        """A core that decodes ``count`` requests."""
        core = self.core()
        params: dict[str, Any] = {"top_k": 1} if temperature == 0 else {"temperature": temperature}
        for number in range(count):
            core.add(
                TokenizedGenerateReqInput(
                    rid=str(number),
                    input_ids=[number + 100, *range(200, 216)],
                    sampling_params=SamplingParams(max_new_tokens=tokens + 80, ignore_eos=True, **params, **grammar),
                    seed=number,
                )
            )
        while len(core.running) < count:
            self.turn(core)
            assert not core.is_idle, "a grammar of this benchmark must not end early"
        return core

    def first_token(self) -> float:
        """Seconds to the first token of a plain request."""
        core = self.core()
        params = SamplingParams(max_new_tokens=1, top_k=1)
        core.add(TokenizedGenerateReqInput(rid="r", input_ids=list(range(200, 232)), sampling_params=params, seed=0))
        total = 0.0
        while not core.is_idle:
            total += self.turn(core)
        return total


class Bench:
    """Two replicas, for steps in turn, and one grammar compiler."""

    def __init__(self, model: str, batch: int, tokens: int) -> None:
        self.batch, self.tokens = batch, tokens
        slots = batch * (tokens + 128) + 256
        args = resolve_args(ServerArgs(model_path=model, max_total_tokens=slots), seed=0).args
        config = model_files.model_config(args)
        self.grammars: GrammarCompiler = make_compiler(
            "xgrammar",
            GrammarOptions(),
            model_files.tokenizer_path(args),
            config.vocab_size,
            list(config.eos_token_ids),
        )
        self.free, self.masked = Replica(args, self.grammars), Replica(args, self.grammars)

    def compare(self, temperature: float, grammar: dict[str, str]) -> tuple[float, float]:
        """Microseconds a token without and with a grammar. The two kinds of step take turns, so that whatever else the
        machine does hits both; a step with a grammar may bring more tokens than it has rows (forced ones)."""
        free = self.free.fill(self.batch, self.tokens, temperature, {})
        masked = self.masked.fill(self.batch, self.tokens, temperature, grammar)
        pairs = []
        before = produced(masked)
        for _ in range(self.tokens):
            pairs.append((self.free.turn(free), self.masked.turn(masked)))
            assert len(free.running) == len(masked.running) == self.batch
        grown = (produced(masked) - before) / self.tokens
        without, with_it = (statistics.median(column) for column in zip(*pairs, strict=True))
        return 1e6 * without / self.batch, 1e6 * with_it / grown


def produced(core: SchedulerCore) -> int:
    return sum(len(request.output_ids) for request in core.running.requests)


def throughput(bench: Bench, rounds: int) -> Iterator[str]:
    yield f"Decoding {bench.batch} requests: microseconds a token without and with a grammar, and the throughput kept"
    for name, grammar in GRAMMARS.items():
        for temperature in (0.0, 1.0):
            found = [bench.compare(temperature, grammar) for _ in range(rounds)]
            free, masked = (statistics.median(column) for column in zip(*found, strict=True))
            kept = statistics.median(a / b for a, b in found)
            yield f"  {name:26} temperature {temperature:g}  {free:8.0f} {masked:8.0f}  {kept:6.1%}"


def compile_times(bench: Bench) -> Iterator[str]:
    yield "Compiling, ms (probe included; the first also starts the probe process)"
    for name, spec in COMPILED.items():
        begin = time.perf_counter()
        bench.grammars.get(spec).result()
        yield f"  {name:40} {1e3 * (time.perf_counter() - begin):8.1f}"


def meanwhile(bench: Bench) -> Iterator[str]:
    yield "First token of a plain request, ms (median)"
    alone = [bench.free.first_token() for _ in range(20)]
    busy = []
    number = 0
    while len(busy) < 20:
        number += 1
        future = bench.grammars.get(GrammarSpec("json_schema", json.dumps({**WIDE, "title": str(number)})))
        while not future.done():
            busy.append(bench.free.first_token())
    yield f"  nothing else to do                       {1e3 * statistics.median(alone):8.1f}"
    yield f"  while schemas of 200 properties compile  {1e3 * statistics.median(busy):8.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="", help="GGUF file or folder; default: the embedded model")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    bench = Bench(str(Path(options.model).expanduser()) if options.model else "", options.batch, options.tokens)
    try:
        for part in (compile_times(bench), meanwhile(bench), throughput(bench, options.rounds)):
            for line in part:
                print(line, flush=True)
    finally:
        bench.grammars.close()


if __name__ == "__main__":
    main()
