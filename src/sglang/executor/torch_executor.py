"""The executor on the torch reference: any device, any family, written to be read."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sglang.executor.batch import ForwardBatch, StepResult
from sglang.executor.start_report import StartReport
from sglang.layers.forward_context import ForwardContext
from sglang.layers.kv_pool import KVPool
from sglang.models.base import CausalLM
from sglang.ops.interface import Ops
from sglang.sampling.logprobs import score_prompt
from sglang.sampling.sampler import Sampler


class TorchExecutor:
    """Implements :class:`sglang.executor.batch.Executor`. Not thread-safe: one step at a time."""

    def __init__(self, model: CausalLM, ops: Ops, pool: KVPool, report: StartReport) -> None:
        self.model = model
        self.ops = ops
        self.pool = pool
        self.num_slots = pool.num_slots
        self.vocab_size = model.config.vocab_size
        self.report = report
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

    def _logits(self, hidden: Tensor) -> npt.NDArray[np.float32]:
        """``[n, hidden] -> [n, vocab]`` float32 in host memory, not shared with the model."""
        return self.model.logits(hidden).cpu().numpy()
