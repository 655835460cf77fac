"""From files to an executor on the native kernels. Torch is not imported on this way."""

from __future__ import annotations

import os
from types import ModuleType
from typing import cast

from sglang.config.model_config import ModelConfig
from sglang.config.server_args import ServerArgs
from sglang.executor.host import cores, memory
from sglang.executor.memory_plan import plan_pool
from sglang.executor.native_executor import NativeExecutor
from sglang.executor.start_report import StartReport
from sglang.loader.load import ModelClass, load_model
from sglang.models.base import CausalLM
from sglang.models.registry import model_class
from sglang.ops.interface import Ops
from sglang.ops.native import NativeOps

KV_DTYPES = {"auto": "float16", "bf16": "bfloat16"}
"""--kv-cache-dtype -> storage type, where the names differ."""
VALUE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}
SCALE_BYTES = {"int8": 4}
"""Beside every vector of a quantized type."""


def build_native(
    kernels: ModuleType, server_args: ServerArgs, config: ModelConfig, *, show_progress: bool
) -> NativeExecutor:
    """Raises NotRecordable for a model that the kernels can't run, LoadError, MemoryPlanError."""
    threads = int(os.environ.get("OMP_NUM_THREADS") or cores())
    ops = NativeOps(kernels, threads, quantization=server_args.quantization)
    # The casts: mypy can't match a class object against a protocol that has attributes besides __call__, and these
    # ops pack only.
    family = cast("ModelClass[CausalLM]", model_class(config.architecture))
    model = load_model(config, family, cast(Ops, ops), show_progress=show_progress)
    kv_dtype = KV_DTYPES.get(server_args.kv_cache_dtype, server_args.kv_cache_dtype)
    token_bytes = kv_bytes_per_token(config, kv_dtype)
    plan = plan_pool(server_args, config, token_bytes, memory())
    report = StartReport("native kernels", threads, plan, plan.num_slots * token_bytes)
    return NativeExecutor(model, ops, plan.num_slots, kv_dtype, report)


def kv_bytes_per_token(config: ModelConfig, kv_dtype: str) -> int:
    """Memory that one slot takes over all layers."""
    vector = config.head_dim * VALUE_BYTES[kv_dtype] + SCALE_BYTES.get(kv_dtype, 0)
    return 2 * config.num_layers * config.num_kv_heads * vector
