"""Build the executor: on the native kernels where they can run the model, else on the torch reference."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

import numpy as np

from sglang.config.model_config import ModelConfig
from sglang.config.server_args import ServerArgs
from sglang.executor.batch import Executor, ForwardBatch
from sglang.executor.native_build import build_native
from sglang.ipc.sampling_params import SamplingParams
from sglang.ops.native import NotRecordable, load_kernels
from sglang.sampling.rows import SampleRow

logger = logging.getLogger(__name__)

WARM_UP_LENGTHS = (1, 5)
"""Query lengths of the two warm-up steps: decode and prefill take different kernels."""
TORCH = "torch_native"
"""The --attention-backend that asks for the reference."""


def create_executor(server_args: ServerArgs, model_config: ModelConfig, *, show_progress: bool = True) -> Executor:
    """Load the model, size the KV pool, warm up.

    Raises LoadError for a checkpoint that does not fit, MemoryPlanError for a KV pool that does not.
    """
    begin = time.perf_counter()
    executor = _native(server_args, model_config, show_progress) or _torch(server_args, model_config, show_progress)
    loaded = time.perf_counter()
    _warm_up(executor)
    executor.report = replace(
        executor.report, load_seconds=loaded - begin, warm_up_seconds=time.perf_counter() - loaded
    )
    logger.info("%s", executor.report.summary())
    return executor


def _native(server_args: ServerArgs, config: ModelConfig, show_progress: bool) -> Executor | None:
    """None, with one warning unless torch was asked for, where the kernels can't do it."""
    if server_args.device not in (None, "auto", "cpu") or server_args.attention_backend == TORCH:
        return None
    kernels = load_kernels()
    if kernels is None:
        logger.warning("The native kernels are not installed: running on torch, several times slower")
        return None
    try:
        return build_native(kernels, server_args, config, show_progress=show_progress)
    except NotRecordable as error:
        logger.warning("The native kernels don't know %s: running on torch, several times slower", error)
        return None


def _torch(server_args: ServerArgs, config: ModelConfig, show_progress: bool) -> Executor:
    # Imported here, because importing torch takes longer than loading a small model on the kernels.
    from sglang.executor.torch_build import build_torch

    return build_torch(server_args, config, show_progress=show_progress)


def _warm_up(executor: Executor) -> None:
    """Run small steps, so that what is prepared on first use is not paid by the first request."""
    for length in WARM_UP_LENGTHS:
        if length <= executor.num_slots:
            executor.run(_trial_batch(length))


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
