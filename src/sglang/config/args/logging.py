"""Flags: logs, metrics and traces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sglang.config.args.declare import flag, ignored


@dataclass(init=False, repr=False, eq=False)
class LoggingArgs:
    """Logging, metrics and tracing."""

    log_level: str = flag("info", "debug, info, warning, error or critical")
    log_level_http: str | None = flag(None, "level of the HTTP access log; default: log_level")
    log_requests: bool = ignored(False, "log every request")
    log_requests_level: int = ignored(2, "0 meta data, 1 + sampling, 2 + part of the texts, 3 everything")
    log_requests_format: str = ignored("text", "form of the request log", choices=["text", "json"])
    log_requests_target: list[str] | None = ignored(None, "'stdout' and/or folders for the request log")
    uvicorn_access_log_exclude_prefixes: list[str] = ignored([], "paths that are not logged")
    crash_dump_folder: str | None = ignored(None, "where the last requests go after a crash")
    show_time_cost: bool = ignored(False, "print times of internal steps")
    enable_request_time_stats_logging: bool = ignored(False, "log times of every request")
    enable_metrics: bool = ignored(False, "serve /metrics for Prometheus")
    enable_metrics_for_all_schedulers: bool = ignored(False, "metrics of every rank")
    enable_mfu_metrics: bool = ignored(False, "metrics of FLOPs and bytes")
    bucket_time_to_first_token: list[float] | None = ignored(None, "histogram borders in seconds")
    bucket_inter_token_latency: list[float] | None = ignored(None, "histogram borders in seconds")
    bucket_e2e_request_latency: list[float] | None = ignored(None, "histogram borders in seconds")
    prompt_tokens_buckets: list[str] | None = ignored(None, "rule for histogram borders")
    generation_tokens_buckets: list[str] | None = ignored(None, "rule for histogram borders")
    tokenizer_metrics_custom_labels_header: str = ignored("x-custom-labels", "header with metric labels")
    tokenizer_metrics_allowed_custom_labels: list[str] | None = ignored(None, "labels that header may set")
    extra_metric_labels: dict[str, Any] | None = ignored(None, "labels of every metric (JSON)", json=True)
    decode_log_interval: int = flag(40, "decode steps between two lines of the log")
    gc_warning_threshold_secs: float = ignored(0.0, "warn when a garbage collection takes longer")
    enable_trace: bool = ignored(False, "send OpenTelemetry traces")
    trace_modules: str = ignored("request", "what is traced")
    otlp_traces_endpoint: str = ignored("localhost:4317", "where traces go")
    otlp_service_name: str | None = ignored(None, "service name in traces")
    export_metrics_to_file: bool = ignored(False, "write metrics of each request to files")
    export_metrics_to_file_dir: str | None = ignored(None, "their folder")
    kv_events_config: str | None = ignored(None, "publish cache events (JSON)", json=True)
    load_publish_endpoint: str | None = ignored(None, "publish the load")
    load_snapshot_publish_interval: int = ignored(15, "decode steps between two load records")
    enable_forward_pass_metrics: bool = ignored(False, "publish metrics of each step")
    enable_layerwise_nvtx_marker: bool = ignored(False, "mark layers for profilers")
