"""A workload on ``sglang.Engine``, without HTTP; prints the summary as one line of JSON.

python -m benchmarks.serving.engine_driver MODEL --workload batch [--seed 0] [--scale 1]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

from benchmarks.serving import workloads
from benchmarks.serving.stats import Reply, summary
from sglang import Engine


def sender(engine: Engine) -> workloads.Send:
    """Whole answers, not streams: the engine at its best."""

    async def send(prompt: str, tokens: int) -> Reply:
        start = time.perf_counter()
        answer = await engine.async_generate(prompt, {"temperature": 0, "max_new_tokens": tokens, "ignore_eos": True})
        end = time.perf_counter()
        assert isinstance(answer, dict)
        meta = answer["meta_info"]
        return Reply(
            prompt=prompt,
            asked=tokens,
            start=start,
            end=end,
            stamps=[end],
            text=answer["text"],
            n_in=meta["prompt_tokens"],
            n_out=meta["completion_tokens"],
        )

    return send


def main() -> None:
    parser = argparse.ArgumentParser(description="a workload on sglang.Engine")
    parser.add_argument("model")
    parser.add_argument("--workload", choices=sorted(workloads.WORKLOADS), default="batch")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--scale", type=float, default=1.0)
    args = parser.parse_args()
    with Engine(model_path=args.model) as engine:
        work = workloads.run(workloads.WORKLOADS[args.workload], sender(engine), args.seed, args.scale)
        print(json.dumps(summary(asyncio.run(work))))


if __name__ == "__main__":
    main()
