"""Flags: device, kernels and graphs. Kernel selectors never change what is computed, so they are accepted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sglang.config.args.declare import flag, ignored


@dataclass(init=False, repr=False, eq=False)
class KernelArgs:
    """Device, kernels and graphs."""

    device: str | None = flag(None, "cpu (default); other devices come with their kernels")
    base_gpu_id: int = ignored(0, "first GPU")
    gpu_id_step: int = ignored(1, "distance between two GPUs")
    random_seed: int | None = flag(None, "seed of the draws of requests that bring none; default: random")
    watchdog_timeout: float = ignored(300.0, "seconds a step may take before the server gives up")
    soft_watchdog_timeout: float | None = ignored(None, "seconds before a hanging step is reported")
    sleep_on_idle: bool = ignored(False, "sleep when idle (as this server always does)", harmless=[True])
    numa_node: list[int] | None = ignored(None, "NUMA nodes of the processes")
    gc_threshold: list[int] | None = ignored(None, "thresholds of Python's garbage collector")
    attention_backend: str | None = ignored(
        None, "kernels of the model: native, or torch_native (the reference)", harmless=["native", "torch_native"]
    )
    decode_attention_backend: str | None = ignored(None, "for decoding", harmless=["torch_native"])
    prefill_attention_backend: str | None = ignored(None, "for prompts", harmless=["torch_native"])
    sampling_backend: str | None = ignored(None, "sampling kernel: pytorch", harmless=["pytorch"])
    mm_attention_backend: str | None = ignored(None, "for vision encoders")
    disable_cuda_graph: bool = ignored(False, "no CUDA graphs (old name)", harmless=[True])
    disable_decode_cuda_graph: bool = ignored(False, "no CUDA graphs for decoding", harmless=[True])
    disable_prefill_cuda_graph: bool = ignored(False, "no CUDA graphs for prompts", harmless=[True])
    disable_cuda_graph_padding: bool = ignored(False, "no padding to captured sizes", harmless=[True])
    cuda_graph_max_bs_decode: int | None = ignored(None, "largest captured batch", aliases=["--cuda-graph-max-bs"])
    cuda_graph_bs_decode: list[int] | None = ignored(None, "captured batches", aliases=["--cuda-graph-bs"])
    cuda_graph_max_bs_prefill: int | None = ignored(None, "largest captured prompt")
    cuda_graph_bs_prefill: list[int] | None = ignored(None, "captured prompts")
    cuda_graph_backend_decode: str | None = ignored(None, "kind of graph for decoding")
    cuda_graph_backend_prefill: str | None = ignored(None, "kind of graph for prompts")
    cuda_graph_config: dict[str, Any] | None = ignored(None, "all graph settings (JSON)", json=True)
    enable_profile_cuda_graph: bool = ignored(False, "profile the capture")
    enable_cudagraph_gc: bool = ignored(False, "collect garbage while capturing")
    enable_torch_compile: bool = ignored(False, "compile the model with torch.compile")
    torch_compile_max_bs: int = ignored(32, "largest compiled batch")
    enable_tf32_matmul: bool = ignored(False, "TF32 on GPUs")
    triton_attention_reduce_in_fp32: bool = ignored(False, "Triton attention sums in float32")
    triton_attention_num_kv_splits: int = ignored(8, "Triton attention splits")
    triton_attention_split_tile_size: int | None = ignored(None, "Triton attention tile")
    flashinfer_mla_disable_ragged: bool = ignored(False, "FlashInfer MLA without ragged prefill")
    disable_flashinfer_autotune: bool = ignored(False, "no FlashInfer tuning")
    enable_flashinfer_allreduce_fusion: bool = ignored(False, "FlashInfer fused all-reduce")
    fp8_gemm_runner_backend: str = ignored("auto", "FP8 matrix kernel")
    fp4_gemm_runner_backend: str = ignored("auto", "FP4 matrix kernel")
    bf16_gemm_backend: str = ignored("auto", "BF16 matrix kernel")
    dsa_prefill_backend: str | None = ignored(None, "sparse attention for prompts")
    dsa_decode_backend: str | None = ignored(None, "sparse attention for decoding")
    dsa_topk_backend: str = ignored("sgl-kernel", "sparse attention selection")
    mamba_backend: str = ignored("triton", "recurrent kernel")
    linear_attn_backend: str = ignored("triton", "linear attention kernel")
    linear_attn_decode_backend: str | None = ignored(None, "for decoding")
    linear_attn_prefill_backend: str | None = ignored(None, "for prompts")
    kt_weight_path: str | None = ignored(None, "KTransformers weights")
    kt_method: str = ignored("AMXINT4", "KTransformers quantization")
    kt_cpuinfer: int | None = ignored(None, "KTransformers threads")
    kt_threadpool_count: int = ignored(2, "KTransformers thread pools")
    kt_num_gpu_experts: int | None = ignored(None, "experts kept on the GPU")
    kt_max_deferred_experts_per_token: int | None = ignored(None, "experts computed late")
