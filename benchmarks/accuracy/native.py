"""Our logits, from the executor that serves requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sglang.config.load_model_config import load_model_config
from sglang.config.server_args import ServerArgs
from sglang.executor.batch import ForwardBatch
from sglang.executor.create import create_executor
from sglang.executor.native_executor import NativeExecutor

Floats = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]


class Native:
    """One model with room for one sequence."""

    def __init__(self, model: Path, context: int, chunk: int, **flags: Any) -> None:
        config = load_model_config(model, context_length=context)
        args = ServerArgs(model_path=str(model), max_total_tokens=context, **flags)
        executor = create_executor(args, config, show_progress=False)
        if not isinstance(executor, NativeExecutor):
            raise ValueError(f"the native kernels can't run {model} with {flags}; see the log")
        self._executor = executor
        self._chunk = chunk
        self._table = np.arange(context, dtype=np.int32)[None]

    def logits(self, ids: IntArray) -> Iterator[Floats]:
        """``[<= chunk, vocab]`` for all positions of one sequence, in order: as a prompt in chunks."""
        for begin in range(0, len(ids), self._chunk):
            places = np.arange(begin, min(begin + self._chunk, len(ids)))
            batch = ForwardBatch(
                input_ids=ids[places],
                positions=places,
                out_slots=places,
                query_lens=np.array([len(places)]),
                seq_lens=np.array([begin + len(places)]),
                table_rows=np.array([0]),
                slot_table=self._table,
            )
            every = np.arange(len(places))
            yield self._executor._compute(batch, every, len(every), None, hidden=False).logits
