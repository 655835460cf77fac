"""The executor that runs a real model: batch in, tokens and logprobs out."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sglang.config.model_config import ModelConfig
from sglang.config.server_args import ServerArgs
from sglang.executor.batch import ForwardBatch, StepResult
from sglang.executor.host import cores, memory
from sglang.executor.memory_plan import MemoryPlan, plan_memory
from sglang.ipc.sampling_params import SamplingParams
from sglang.layers.forward_context import ForwardContext
from sglang.layers.kv_pool import KVPool, bytes_per_token
from sglang.loader.load import DTYPES, ModelClass, load_model
from sglang.models.base import CausalLM
from sglang.models.registry import model_class
from sglang.ops.interface import Ops
from sglang.ops.select import select
from sglang.sampling.logprobs import score_prompt
from sglang.sampling.rows import SampleRow
from sglang.sampling.sampler import Sampler

logger = logging.getLogger(__name__)

WARM_UP_LENGTHS = (1, 5)
"""Query lengths of the two warm-up steps: decode and prefill take different kernels."""


@dataclass(frozen=True, slots=True)
class StartReport:
    """How building went: for logs and for the info routes."""

    load_seconds: float
    warm_up_seconds: float
    memory: MemoryPlan
    kv_cache_bytes: int
    threads: int

    def summary(self) -> str:
        """One line for the log."""
        return (
            f"weights in {self.load_seconds:.1f} s, warm-up in {self.warm_up_seconds:.1f} s, KV pool of "
            f"{self.memory.num_slots} tokens ({self.kv_cache_bytes / 2**30:.2f} GiB; {self.memory.reason}), "
            f"{self.threads} threads"
        )


class ModelExecutor:
    """Implements :class:`sglang.executor.batch.Executor`. Not thread-safe: one step at a time."""

    def __init__(self, model: CausalLM, ops: Ops, pool: KVPool) -> None:
        self.model = model
        self.ops = ops
        self.pool = pool
        self.num_slots = pool.num_slots
        self.vocab_size = model.config.vocab_size
        self.report: StartReport | None = None
        self._sampler = Sampler(self.vocab_size)

    @torch.inference_mode()
    def run(self, batch: ForwardBatch) -> StepResult:
        """See :meth:`sglang.executor.batch.Executor.run`."""
        ctx = ForwardContext(
            self.ops,
            self.pool,
            input_ids=batch.input_ids,
            positions=batch.positions,
            out_slots=batch.out_slots,
            query_lens=batch.query_lens,
            seq_lens=batch.seq_lens,
            table_rows=batch.table_rows,
            slot_table=batch.slot_table,
        )
        hidden = self.model.forward(ctx)  # [tokens, hidden]
        ends = np.cumsum(batch.query_lens)
        result = StepResult(tokens=[])
        if batch.sample:
            last = ends[[sample.row for sample in batch.sample]] - 1
            logits = self._logits(hidden[torch.from_numpy(last)])
            result.tokens, result.invalid, result.logprobs = self._sampler.sample(logits, batch.sample)
        for request in batch.prompt_logprobs:
            first = int(ends[request.row] - batch.query_lens[request.row]) + request.offset
            states = hidden[first : first + len(request.targets)]
            result.prompt_logprobs.append(score_prompt(self._logits, states, request, self.vocab_size))
        return result

    def warm_up(self) -> None:
        """Run small steps, so that what libraries prepare on first use is not paid by the first request."""
        for length in WARM_UP_LENGTHS:
            if length <= self.num_slots:
                self.run(_trial_batch(length))

    def _logits(self, hidden: Tensor) -> npt.NDArray[np.float32]:
        """``[n, hidden] -> [n, vocab]`` float32 in host memory, not shared with the model."""
        return self.model.logits(hidden).cpu().numpy()


def create_executor(server_args: ServerArgs, model_config: ModelConfig, *, show_progress: bool = True) -> ModelExecutor:
    """Load the model, size the KV pool, warm up.

    Raises LoadError for a checkpoint that does not fit, MemoryPlanError for a KV pool that does not.
    """
    device = server_args.device if server_args.device not in (None, "auto") else "cpu"
    threads = use_cores()
    ops = select(device)
    begin = time.perf_counter()
    with torch.inference_mode():
        # The cast: mypy can't match a class object against a protocol that has attributes besides __call__.
        family = cast("ModelClass[CausalLM]", model_class(model_config.architecture))
        model = load_model(model_config, family, ops=ops, device=device, show_progress=show_progress)
    loaded = time.perf_counter()
    dtype = DTYPES[model_config.dtype]
    plan = _plan(server_args, model_config, device, bytes_per_token(model_config, dtype))
    pool = KVPool.for_model(model_config, plan.num_slots, dtype=dtype, device=device)
    executor = ModelExecutor(model, ops, pool)
    executor.warm_up()
    executor.report = StartReport(
        load_seconds=loaded - begin,
        warm_up_seconds=time.perf_counter() - loaded,
        memory=plan,
        kv_cache_bytes=plan.num_slots * pool.bytes_per_token(),
        threads=threads,
    )
    logger.info("%s", executor.report.summary())
    return executor


def use_cores() -> int:
    """Let torch compute on all physical cores this process may use, unless OMP_NUM_THREADS says how many."""
    if not os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(cores())
    return torch.get_num_threads()


def _plan(server_args: ServerArgs, model_config: ModelConfig, device: str, token_bytes: int) -> MemoryPlan:
    available, total = memory() if device == "cpu" else torch.cuda.mem_get_info(device)
    return plan_memory(
        bytes_per_token=token_bytes,
        context_length=model_config.context_length,
        available=available,
        total=total,
        page_size=server_args.page_size,
        max_total_tokens=server_args.max_total_tokens,
        mem_fraction_static=server_args.mem_fraction_static,
    )


def _trial_batch(length: int) -> ForwardBatch:
    """One row of ``length`` new tokens in the first slots. They may be written: nobody owns them yet."""
    places = np.arange(length)
    params = SamplingParams()
    return ForwardBatch(
        input_ids=np.zeros(length, np.int64),
        positions=places,
        out_slots=places,
        query_lens=np.array([length]),
        seq_lens=np.array([length]),
        table_rows=np.array([0]),
        slot_table=places.astype(np.int32)[None],
        sample=[SampleRow(row=0, params=params, seed=0, position=0, output_ids=[], stop_ids=frozenset())],
    )
