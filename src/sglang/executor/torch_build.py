"""From files to an executor on the torch reference."""

from __future__ import annotations

import os
from typing import cast

import torch

from sglang.config.model_config import ModelConfig
from sglang.config.server_args import ServerArgs
from sglang.executor.host import cores, memory
from sglang.executor.memory_plan import plan_pool
from sglang.executor.start_report import StartReport
from sglang.executor.torch_executor import TorchExecutor
from sglang.layers.kv_pool import KVPool, bytes_per_token
from sglang.loader.load import ModelClass, load_model
from sglang.models.base import CausalLM
from sglang.models.registry import model_class
from sglang.ops.select import select
from sglang.ops.torch_ops import DTYPES

KV_DTYPES = {"bf16": "bfloat16"}
"""--kv-cache-dtype -> torch's name, where they differ."""


def build_torch(server_args: ServerArgs, config: ModelConfig, *, show_progress: bool) -> TorchExecutor:
    """Raises LoadError, MemoryPlanError, ValueError for number types that torch has no arithmetic for."""
    device = server_args.device if server_args.device not in (None, "auto") else "cpu"
    threads = use_cores()
    ops = select(device)
    with torch.inference_mode():
        # The cast: mypy can't match a class object against a protocol that has attributes besides __call__.
        family = cast("ModelClass[CausalLM]", model_class(config.architecture))
        model = load_model(config, family, ops, show_progress=show_progress)
    dtype = _kv_dtype(server_args, config)
    token_bytes = bytes_per_token(config, dtype)
    plan = plan_pool(server_args, config, token_bytes, memory() if device == "cpu" else torch.cuda.mem_get_info(device))
    pool = KVPool.for_model(config, plan.num_slots, dtype=dtype, device=device)
    report = StartReport("torch", threads, plan, plan.num_slots * token_bytes)
    return TorchExecutor(model, ops, pool, report)


def use_cores() -> int:
    """Let torch compute on all physical cores this process may use, unless OMP_NUM_THREADS says how many."""
    if not os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(cores())
    return torch.get_num_threads()


def _kv_dtype(server_args: ServerArgs, config: ModelConfig) -> torch.dtype:
    asked = server_args.kv_cache_dtype
    name = config.dtype if asked == "auto" else KV_DTYPES.get(asked, asked)
    if name not in DTYPES:
        raise ValueError(
            f"--kv-cache-dtype {asked} needs the native kernels; on torch choose one of: auto, {', '.join(DTYPES)}"
        )
    return DTYPES[name]
