"""Flags: which model, in which form."""

from __future__ import annotations

from dataclasses import dataclass

from sglang.config.args.declare import flag, ignored, later

LOAD_FORMATS = (
    "auto",
    "pt",
    "safetensors",
    "npcache",
    "dummy",
    "sharded_state",
    "gguf",
    "bitsandbytes",
    "mistral",
    "layered",
    "remote",
    "remote_instance",
    "fastsafetensors",
    "runai_streamer",
)
DTYPES = ("auto", "half", "float16", "bfloat16", "float", "float32")
QUANTIZATIONS = ("int8", "int4", "w8a8_int8", "gguf")
KV_CACHE_DTYPES = ("auto", "float16", "bfloat16", "bf16", "float32", "int8")


@dataclass(init=False, repr=False, eq=False)
class ModelArgs:
    """Model and tokenizer."""

    model_path: str = flag("", "folder, .gguf file or Hugging Face id; empty: the embedded model", aliases=["--model"])
    tokenizer_path: str | None = flag(None, "tokenizer folder, if not the model's own")
    tokenizer_mode: str = ignored("auto", "'slow' asks for the Python tokenizer", choices=["auto", "slow"])
    tokenizer_backend: str = ignored("huggingface", "tokenizer library", choices=["huggingface", "fastokens"])
    skip_tokenizer_init: bool = flag(False, "token ids in, token ids out: no tokenizer, no text")
    load_format: str = later(
        "auto",
        "form of the weights; found out from the files by default",
        choices=LOAD_FORMATS,
        harmless=["safetensors", "gguf"],
    )
    model_loader_extra_config: str = ignored("{}", "extra options of the loader (JSON)", json=True)
    trust_remote_code: bool = ignored(False, "run Python code of the checkpoint (this server never does)")
    context_length: int | None = flag(None, "longest context in tokens; default: the model's own", suffix=True)
    is_embedding: bool = later(False, "serve a causal model as embedding or reward model")
    revision: str | None = flag(None, "branch, tag or commit of the Hugging Face repository")
    model_impl: str = later(
        "auto", "which model code to use", choices=["auto", "sglang", "transformers"], harmless=["sglang"]
    )
    json_model_override_args: str = flag("{}", "keys that replace those of the model's config (JSON)", json=True)
    dtype: str = flag("auto", "compute type; auto means float32 on CPU", choices=DTYPES)
    quantization: str | None = flag(
        None, "what dense weights become at load; GGUF files say it themselves", choices=QUANTIZATIONS
    )
    kv_cache_dtype: str = flag("auto", "number type of the KV cache; auto means float16", choices=KV_CACHE_DTYPES)
    quantization_param_path: str | None = later(None, "file with KV cache scales")
    download_dir: str | None = flag(None, "folder for downloaded models; default: the Hugging Face cache")
    served_model_name: str | None = flag(None, "model name shown to clients; default: model_path")
    chat_template: str | None = flag(None, "path of a .jinja chat template that replaces the model's own")
    hf_chat_template_name: str | None = later(None, "which of several templates of a checkpoint to use")
    completion_template: str | None = flag(
        None, "how /v1/completions writes a suffix: deepseek_coder, star_coder, qwen_coder, or a .json file"
    )
    enable_multimodal: bool | None = later(None, "serve images, audio and video", harmless=[False])
    weight_version: str = flag("default", "label of the weights, reported in meta_info")
    custom_weight_loader: list[str] = later([], "import paths of weight loaders (runs code by name)")
    weight_loader_disable_mmap: bool = ignored(False, "read weight files instead of mapping them")
    weight_loader_prefetch_checkpoints: bool = ignored(False, "read weight files ahead")
    weight_loader_prefetch_num_threads: int = ignored(4, "threads that read ahead")
    weight_loader_drop_cache_after_load: bool = ignored(False, "drop the page cache after loading")
    model_checksum: str | None = later(None, "checksum the weights must have")
    delete_ckpt_after_loading: bool = ignored(False, "delete the checkpoint once loaded")
    modelopt_quant: str | None = later(None, "ModelOpt quantization recipe")
    modelopt_checkpoint_restore_path: str | None = ignored(None, "ModelOpt checkpoint to restore")
    modelopt_checkpoint_save_path: str | None = ignored(None, "where to save a ModelOpt checkpoint")
    modelopt_export_path: str | None = ignored(None, "where to export a ModelOpt model")
    quantize_and_serve: bool = later(False, "quantize with ModelOpt, then serve")
    startup_weight_load_mode: str = ignored("serial", "how weights are loaded at start")
    remote_instance_weight_loader_seed_instance_ip: str | None = ignored(None, "copy weights from this server")
    remote_instance_weight_loader_seed_instance_service_port: int | None = ignored(None, "its HTTP port")
    remote_instance_weight_loader_send_weights_group_ports: list[int] | None = ignored(
        None, "its sending ports", json=True
    )
    remote_instance_weight_loader_backend: str = ignored("nccl", "transport for copying weights")
    remote_instance_weight_loader_start_seed_via_transfer_engine: bool = ignored(False, "be a seed for others")
    weight_cache_mode: str = ignored("off", "share loaded weights between servers")
    weight_cache_socket: str | None = ignored(None, "socket of the weight cache")
    weight_cache_timeout: int = ignored(1800, "seconds to wait for the weight cache")
    checkpoint_engine_wait_weights_before_ready: bool = later(False, "wait for weights from a checkpoint engine")
