"""Flags: the HTTP server, its security and how answers are streamed."""

from __future__ import annotations

from dataclasses import dataclass

from sglang.config.args.declare import flag, ignored


@dataclass(init=False, repr=False, eq=False)
class HttpArgs:
    """HTTP server."""

    host: str = flag("127.0.0.1", "address to listen on; 0.0.0.0 for every interface")
    port: int = flag(30000, "port to listen on")
    fastapi_root_path: str = flag("", "path prefix that a proxy in front strips")
    skip_server_warmup: bool = flag(False, "be ready without answering a first request")
    warmups: str | None = ignored(None, "comma-separated names of extra warm-ups")
    ssl_keyfile: str | None = flag(None, "TLS private key file")
    ssl_certfile: str | None = flag(None, "TLS certificate file")
    ssl_ca_certs: str | None = flag(None, "file with certificate authorities that clients must be signed by")
    ssl_keyfile_password: str | None = flag(None, "password of the TLS key file", secret=True)
    enable_ssl_refresh: bool = ignored(False, "reload TLS files when they change")
    api_key: str | None = flag(None, "key clients must send as 'Authorization: Bearer KEY'", secret=True)
    admin_api_key: str | None = flag(None, "key for control routes", secret=True)
    tokenizer_worker_num: int = ignored(1, "processes that tokenize")
    detokenizer_worker_num: int = ignored(1, "processes that detokenize")
    stream_interval: int = flag(1, "tokens between two events of a stream")
    incremental_streaming_output: bool = flag(False, "/generate streams new text only, not all text so far")
    batch_notify_size: int = ignored(16, "answers handed over together")
    stream_response_default_include_usage: bool = flag(False, "streams end with a usage event unless asked not to")
    allow_auto_truncate: bool = flag(False, "cut prompts that are too long instead of refusing them")
    enable_http2: bool = ignored(False, "speak HTTP/2")
    http2_max_concurrent_streams: int = ignored(200, "HTTP/2 streams of a connection")
    http2_initial_connection_window_size: int = ignored(1048576, "HTTP/2 flow control window in bytes")
    enable_http_worker_reuseport: bool = ignored(False, "several HTTP workers on one port")
    enable_response_store: bool = flag(False, "keep answers of /v1/responses for later requests, in memory")
    grpc_port: int | None = ignored(None, "port of the gRPC server")
    grpc_mode: bool = ignored(False, "speak gRPC instead of HTTP")
    smg_grpc_mode: bool = ignored(False, "speak gRPC with a gateway")
    grpc_worker_threads: int = ignored(4, "gRPC threads")
    grpc_response_timeout_secs: int = ignored(300, "gRPC time limit in seconds")
    sidecar: str | None = ignored(None, "helper program to start beside the server")
    sidecar_args: str | None = ignored(None, "its arguments")
    smg_http_sidecar_port: int | None = ignored(None, "port of an HTTP sidecar")
    file_storage_path: str | None = flag(None, "folder of /v1/files and /v1/batches; without it both are off")
    use_ray: bool = ignored(False, "start the processes through Ray")
