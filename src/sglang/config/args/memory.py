"""Flags: memory for tokens, and the cache tiers below it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sglang.config.args.declare import flag, ignored, later


@dataclass(init=False, repr=False, eq=False)
class MemoryArgs:
    """Memory and prefix cache."""

    mem_fraction_static: float | None = flag(None, "share of memory for weights and KV cache; default: by measure")
    max_total_tokens: int | None = flag(None, "size of the KV pool in tokens; default: by memory", suffix=True)
    page_size: int = flag(1, "tokens of a page of the KV pool")
    radix_eviction_policy: str = flag(
        "lru", "which cached prefix goes first", choices=["lru", "lfu", "slru", "priority", "tlru"]
    )
    radix_eviction_policy_config: dict[str, Any] | None = ignored(None, "options of the policy (JSON)", json=True)
    radix_cache_backend: str | None = ignored(None, "other prefix cache")
    disable_radix_cache: bool = flag(False, "share no prefixes between requests")
    disable_chunked_prefix_cache: bool = ignored(False, "no chunked prefix cache for MLA models")
    enable_session_radix_cache: bool = ignored(False, "prefix cache for sessions")
    enable_streaming_session: bool = ignored(False, "sessions that stream")
    swa_full_tokens_ratio: float = ignored(0.8, "sliding-window pool relative to the full one")
    disable_hybrid_swa_memory: bool = ignored(False, "one pool for sliding-window and full layers")
    max_mamba_cache_size: int | None = ignored(None, "states of recurrent layers")
    mamba_full_memory_ratio: float = ignored(0.9, "memory of recurrent states relative to the KV pool")
    mamba_ssm_dtype: str | None = ignored(None, "number type of recurrent states")
    mamba_radix_cache_strategy: str = ignored("auto", "prefix cache for recurrent layers")
    mamba_track_interval: int = ignored(256, "tokens between two saved states")
    cpu_offload_gb: int = ignored(0, "GB of weights kept in host memory")
    offload_group_size: int = ignored(-1, "layers of an offload group")
    offload_num_in_group: int = ignored(1, "layers offloaded in each group")
    offload_prefetch_step: int = ignored(1, "layers fetched ahead")
    offload_mode: str = ignored("cpu", "where offloaded layers live")
    enable_memory_saver: bool = ignored(False, "allow memory to be released and resumed")
    enable_weights_cpu_backup: bool = ignored(False, "keep a copy of released weights")

    enable_hierarchical_cache: bool = later(False, "second cache tier in host memory", aliases=["--enable-hicache"])
    hicache_ratio: float = ignored(2.0, "host tier relative to the KV pool")
    hicache_size: int = ignored(0, "host tier in GB")
    hicache_host_memory_fraction: float = ignored(0.8, "share of host memory it may take")
    hicache_write_policy: str = ignored(
        "write_through", "when pages go to the host", choices=["write_back", "write_through", "write_through_selective"]
    )
    hicache_io_backend: str = ignored("kernel", "how pages are copied", choices=["kernel", "direct"])
    hicache_mem_layout: str = ignored("page_first", "page layout in the host tier")
    hicache_storage_backend: str | None = later(None, "third tier: file, mooncake, hf3fs, nixl ...")
    hicache_storage_prefetch_policy: str = ignored(
        "timeout", "when to wait for storage", choices=["best_effort", "wait_complete", "timeout"]
    )
    hicache_storage_backend_extra_config: str | None = ignored(None, "options (JSON or @file)")
    enable_lmcache: bool = ignored(False, "use LMCache")
    lmcache_config_file: str | None = ignored(None, "its configuration")
    enable_flexkv: bool = ignored(False, "use FlexKV")
    flexkv_config_file: str | None = ignored(None, "its configuration")
    enable_hisparse: bool = ignored(False, "sparse attention over host memory")
    hisparse_config: str | None = ignored(None, "its configuration")
    enable_unified_cache_external_linker: bool = ignored(False, "external cache")
    unified_cache_external_linker_backend: str = ignored("mooncake", "its kind")
    unified_cache_external_linker_config: str | None = ignored(None, "its configuration")
