"""Flags: several devices or machines. One process runs the model today, so sizes above one are refused."""

from __future__ import annotations

from dataclasses import dataclass

from sglang.config.args.declare import ignored, later


@dataclass(init=False, repr=False, eq=False)
class ParallelArgs:
    """Parallelism and disaggregation."""

    tp_size: int = later(1, "tensor parallel ranks", aliases=["--tp", "--tensor-parallel-size"])
    pp_size: int = later(1, "pipeline stages", aliases=["--pp", "--pipeline-parallel-size"])
    dp_size: int = later(1, "data parallel copies", aliases=["--dp", "--data-parallel-size"])
    ep_size: int = later(1, "expert parallel ranks", aliases=["--ep", "--expert-parallel-size"])
    attn_dp_size: int = later(1, "data parallel ranks of attention")
    attn_cp_size: int = later(1, "context parallel ranks of attention")
    moe_dp_size: int = later(1, "data parallel ranks of experts")
    dcp_size: int = later(1, "context parallel ranks of decoding")
    pp_max_micro_batch_size: int | None = ignored(None, "requests of a pipeline micro batch")
    pp_async_batch_depth: int = ignored(0, "pipeline batches in flight")
    enable_dp_attention: bool = later(False, "data parallel attention (old name)")
    enable_dp_lm_head: bool = ignored(False, "data parallel output head")
    load_balance_method: str = ignored(
        "auto",
        "how requests spread over copies",
        choices=["auto", "round_robin", "follow_bootstrap_room", "total_requests", "total_tokens"],
        harmless=["round_robin"],
    )
    nnodes: int = later(1, "machines")
    node_rank: int = later(0, "which of them this is")
    dist_init_addr: str | None = ignored(None, "host:port of rank 0", aliases=["--nccl-init-addr"])
    dist_timeout: int | None = ignored(None, "seconds ranks wait for each other")
    nccl_port: int | None = ignored(None, "port for NCCL")
    disable_custom_all_reduce: bool = ignored(False, "NCCL instead of own all-reduce", harmless=[True])
    enable_nccl_nvls: bool = ignored(False, "NVLink SHARP")
    enable_symm_mem: bool = ignored(False, "NCCL symmetric memory")
    enable_torch_symm_mem: bool = ignored(False, "torch symmetric memory")
    enable_mscclpp: bool = ignored(False, "MSCCL++")
    enable_p2p_check: bool = ignored(False, "check peer access")

    moe_a2a_backend: str = ignored("none", "exchange between expert ranks")
    moe_runner_backend: str = ignored("auto", "expert kernel")
    moe_dense_tp_size: int | None = ignored(None, "tensor parallel ranks of dense layers")
    deepep_mode: str = ignored("auto", "DeepEP mode", choices=["auto", "normal", "low_latency"])
    deepep_config: str | None = ignored(None, "DeepEP settings")
    ep_num_redundant_experts: int = ignored(0, "copies of experts")
    ep_dispatch_algorithm: str | None = ignored(None, "which copy is used")
    init_expert_location: str = ignored("trivial", "where experts start")
    enable_eplb: bool = ignored(False, "move experts by load")
    eplb_algorithm: str = ignored("auto", "how they move")
    eplb_rebalance_num_iterations: int = ignored(1000, "steps between two moves")
    eplb_rebalance_layers_per_chunk: int | None = ignored(None, "layers moved at once")
    eplb_min_rebalancing_utilization_threshold: float = ignored(1.0, "balance above which none moves")
    expert_distribution_recorder_mode: str | None = ignored(None, "record which experts work")
    expert_distribution_recorder_buffer_size: int = ignored(1000, "steps recorded")
    elastic_ep_backend: str | None = ignored(None, "survive lost expert ranks")
    enable_elastic_expert_backup: bool = ignored(False, "keep copies for that")
    disable_shared_experts_fusion: bool = ignored(False, "shared experts apart")
    enable_two_batch_overlap: bool = ignored(False, "overlap two half batches")
    enable_single_batch_overlap: bool = ignored(False, "overlap inside a batch")
    tbo_token_distribution_threshold: float = ignored(0.48, "how halves are cut")

    disaggregation_mode: str = later("null", "prefill or decode apart", choices=["null", "prefill", "decode"])
    disaggregation_transfer_backend: str = ignored("mooncake", "transport between the two")
    disaggregation_bootstrap_port: int = ignored(8998, "port where they meet")
    disaggregation_ib_device: str | None = ignored(None, "InfiniBand device")
    disaggregation_decode_enable_radix_cache: bool = ignored(False, "prefix cache on the decode side")
    disaggregation_decode_enable_offload_kvcache: bool = ignored(False, "offload on the decode side")
    disaggregation_decode_polling_interval: int = ignored(1, "steps between two looks")
    num_reserved_decode_tokens: int = ignored(512, "tokens kept for decoding")
    encoder_only: bool = later(False, "run the vision encoder only")
    language_only: bool = later(False, "run the language model only")
    encoder_transfer_backend: str = ignored("zmq_to_scheduler", "transport from encoders")
    encoder_urls: list[str] = later([], "encoder servers")
    enable_pdmux: bool = ignored(False, "prefill and decode on parts of one GPU")
    pdmux_config_path: str | None = ignored(None, "its configuration")
    sm_group_num: int = ignored(8, "its parts")
