"""Flags: LoRA, speculative decoding, multimodal input, determinism and debugging."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sglang.config.args.declare import flag, ignored, later


@dataclass(init=False, repr=False, eq=False)
class LoraArgs:
    """LoRA."""

    enable_lora: bool | None = later(None, "serve LoRA adapters", harmless=[False])
    lora_paths: list[str] | None = later(None, "adapters: PATH, NAME=PATH or JSON")
    max_lora_rank: int | None = ignored(None, "largest rank")
    lora_target_modules: list[str] | None = ignored(None, "adapted layers, or 'all'")
    max_loras_per_batch: int = ignored(8, "adapters of a batch, the base model included")
    max_loaded_loras: int | None = ignored(None, "adapters in host memory")
    lora_eviction_policy: str = ignored("lru", "which adapter goes first", choices=["lru", "fifo"])
    lora_backend: str = ignored("csgmv", "LoRA kernel")
    max_lora_chunk_size: int = ignored(16, "chunk of the csgmv kernel")
    lora_strict_loading: bool = ignored(False, "refuse adapters with unknown tensors")
    lora_drain_wait_threshold: float = ignored(0.0, "seconds before waiting adapters get a turn")
    enable_lora_overlap_loading: bool | None = ignored(None, "load adapters while running")


@dataclass(init=False, repr=False, eq=False)
class SpeculativeArgs:
    """Speculative decoding."""

    speculative_algorithm: str | None = later(None, "EAGLE, EAGLE3, NEXTN, STANDALONE, NGRAM ...")
    speculative_draft_model_path: str | None = ignored(None, "draft model", aliases=["--speculative-draft-model"])
    speculative_draft_model_revision: str | None = ignored(None, "its revision")
    speculative_draft_load_format: str | None = ignored(None, "its form")
    speculative_draft_model_quantization: str | None = ignored(None, "its quantization")
    speculative_num_steps: int | None = ignored(None, "draft steps")
    speculative_eagle_topk: int | None = ignored(None, "branches of a step")
    speculative_num_draft_tokens: int | None = ignored(None, "tokens checked at once")
    speculative_accept_threshold_single: float = ignored(1.0, "acceptance of one token")
    speculative_accept_threshold_acc: float = ignored(1.0, "acceptance of a run")
    speculative_use_rejection_sampling: bool = ignored(False, "exact rejection sampling")
    speculative_token_map: str | None = ignored(None, "small draft vocabulary")
    speculative_attention_mode: str = ignored("prefill", "attention of checks", choices=["prefill", "decode"])
    speculative_draft_attention_backend: str | None = ignored(None, "attention kernel of the draft")
    speculative_draft_kv_cache_dtype: str | None = ignored(None, "KV number type of the draft")
    speculative_draft_window_size: int | None = ignored(None, "context of the draft")
    speculative_ngram_min_bfs_breadth: int = ignored(1, "n-gram tree: least breadth")
    speculative_ngram_max_bfs_breadth: int = ignored(10, "n-gram tree: largest breadth")
    speculative_ngram_match_type: str = ignored("BFS", "n-gram tree: choice", choices=["BFS", "PROB"])
    speculative_ngram_max_trie_depth: int = ignored(18, "n-gram tree: depth")
    speculative_ngram_capacity: int = ignored(10_000_000, "n-gram tree: nodes")
    speculative_ngram_external_corpus_path: str | None = ignored(None, "n-gram corpus")
    speculative_ngram_external_sam_budget: int = ignored(0, "draft tokens from the corpus")
    speculative_ngram_external_corpus_max_tokens: int = ignored(10_000_000, "tokens of the corpus")
    speculative_adaptive: bool = ignored(False, "adapt draft steps")
    speculative_adaptive_config: str | None = ignored(None, "its settings")
    speculative_dflash_block_size: int | None = ignored(None, "DFLASH block")
    speculative_dspark_block_size: int | None = ignored(None, "DSPARK block")
    speculative_domino_candidate_pool_size: int = ignored(2048, "DOMINO candidates")
    uno_lora_path: str | None = ignored(None, "UNO adapter")
    enable_multi_layer_eagle: bool = ignored(False, "EAGLE with several layers")


@dataclass(init=False, repr=False, eq=False)
class MultimodalArgs:
    """Multimodal input."""

    mm_process_config: dict[str, Any] = ignored({}, "options of media processors (JSON)", json=True)
    mm_processor_worker_num: int = ignored(0, "processes that prepare media")
    mm_io_worker_num: int = ignored(0, "threads that fetch media")
    allowed_media_domains: list[str] = ignored([], "hosts media may come from (no media is fetched yet)")
    media_url_max_file_size_mb: int = ignored(64, "largest media file; 0: any")
    limit_mm_data_per_request: dict[str, Any] | None = ignored(None, "media of a request (JSON)", json=True)
    image_processor_backend: str = ignored("auto", "image library", choices=["auto", "torchvision", "pil"])
    enable_prefix_mm_cache: bool = ignored(False, "cache encoded media")
    trust_mm_content_hashes: bool = later(False, "believe media hashes that requests bring")
    mm_feature_transport: str = ignored("cpu", "how encoded media travel")
    mm_enable_dp_encoder: bool = ignored(False, "data parallel encoder")
    disable_fast_image_processor: bool = ignored(False, "slow image processors")


@dataclass(init=False, repr=False, eq=False)
class DebugArgs:
    """Determinism and debugging."""

    enable_deterministic_inference: bool = flag(False, "results do not depend on the batch (always so here)")
    rl_on_policy_target: str | None = later(None, "match a trainer's numerics", choices=["fsdp"])
    enable_fp32_lm_head: bool = ignored(False, "logits in float32 (always so here)", harmless=[True])
    forward_hooks: list[Any] | None = later(None, "functions called in the model (JSON)", json=True)
    kv_canary: str = ignored("none", "check KV memory", choices=["none", "log", "raise"])
    debug_tensor_dump_output_folder: str | None = ignored(None, "folder for tensors of each step")
    debug_tensor_dump_layers: list[int] | None = ignored(None, "layers that are dumped")
    debug_tensor_dump_input_file: str | None = ignored(None, "tensors to start from")
    dllm_algorithm: str | None = later(None, "diffusion language model")
    dllm_algorithm_config: str | None = ignored(None, "its configuration")
