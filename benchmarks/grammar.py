"""What grammars cost: masked against unmasked decoding, compile times, and the first token of others meanwhile.

    python benchmarks/grammar.py [--model FILE] [--batch 32] [--tokens 64] [--rounds 3]

Decoding runs the executor and the scheduler core in this process, rounds of both kinds in turn, so that a change of the
machine's load hits both. Compile times are those a first request waits: probe process and all.
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
    "JSON, a long text": {"json_schema": json.dumps({"type": "string"})},
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


class Bench:
    """A model, a scheduler core and a grammar compiler in this process."""

    def __init__(self, model: str, batch: int, tokens: int) -> None:
        self.batch, self.tokens = batch, tokens
        args = resolve_args(ServerArgs(model_path=model, max_total_tokens=batch * (tokens + 64) + 256), seed=0).args
        config = model_files.model_config(args)
        self.executor: Executor = create_executor(args, config)
        self.grammars: GrammarCompiler = make_compiler(
            "xgrammar",
            GrammarOptions(),
            model_files.tokenizer_path(args),
            config.vocab_size,
            list(config.eos_token_ids),
        )
        self._config = scheduler_config(args, read_env(), config, self.executor.num_slots)

    def core(self) -> SchedulerCore:
        return SchedulerCore(self._config, grammars=self.grammars)

    def decode(self, temperature: float, grammar: dict[str, str]) -> float:
        """Tokens a second of one round: the whole batch from its first token to its last."""
        core = self.core()
        params: dict[str, Any] = {"top_k": 1} if temperature == 0 else {"temperature": temperature}
        for number in range(self.batch):
            core.add(
                TokenizedGenerateReqInput(
                    rid=str(number),
                    input_ids=[number + 100, *range(200, 216)],
                    sampling_params=SamplingParams(max_new_tokens=self.tokens, ignore_eos=True, **params, **grammar),
                    seed=number,
                )
            )
        while len(core.running) < self.batch:
            self.turn(core)
        begin, before = time.perf_counter(), self.produced(core)
        while len(core.running) == self.batch:
            after = self.produced(core)
            now = time.perf_counter()
            self.turn(core)
        while not core.is_idle:
            self.turn(core)
        return (after - before) / (now - begin)

    def turn(self, core: SchedulerCore) -> None:
        batch = core.next_batch()
        if batch is not None:
            core.settle(batch, self.executor.run(batch))
        core.take_outputs()

    @staticmethod
    def produced(core: SchedulerCore) -> int:
        return sum(len(request.output_ids) for request in core.running.requests)

    def first_token(self) -> float:
        """Seconds to the first token of a plain request."""
        core = self.core()
        params = SamplingParams(max_new_tokens=1, top_k=1)
        core.add(TokenizedGenerateReqInput(rid="r", input_ids=list(range(200, 232)), sampling_params=params, seed=0))
        begin = time.perf_counter()
        while not core.is_idle:
            self.turn(core)
        return time.perf_counter() - begin


def throughput(bench: Bench, rounds: int) -> Iterator[str]:
    yield f"Decoding, {bench.batch} requests x {bench.tokens} tokens, tokens/s (median of {rounds} rounds in turn)"
    for temperature in (0.0, 1.0):
        kinds = {"none": {}, **GRAMMARS}
        found: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(rounds):
            for name, grammar in kinds.items():
                found[name].append(bench.decode(temperature, grammar))
        free = statistics.median(found["none"])
        for name, values in found.items():
            value = statistics.median(values)
            yield f"  temperature {temperature:g}  {name:28} {value:8.0f}  {value / free:6.1%}"


def compile_times(bench: Bench) -> Iterator[str]:
    yield "Compiling, ms (probe included; the first also starts the probe process)"
    for name, spec in COMPILED.items():
        begin = time.perf_counter()
        bench.grammars.get(spec).result()
        yield f"  {name:40} {1e3 * (time.perf_counter() - begin):8.1f}"


def meanwhile(bench: Bench) -> Iterator[str]:
    yield "First token of a plain request, ms (median)"
    alone = [bench.first_token() for _ in range(20)]
    busy = []
    number = 0
    while len(busy) < 20:
        number += 1
        future = bench.grammars.get(GrammarSpec("json_schema", json.dumps({**WIDE, "title": str(number)})))
        while not future.done():
            busy.append(bench.first_token())
    yield f"  nothing else to do                       {1e3 * statistics.median(alone):8.1f}"
    yield f"  while schemas of 200 properties compile  {1e3 * statistics.median(busy):8.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="", help="GGUF file or folder; default: the embedded model")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=64)
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
