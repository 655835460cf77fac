"""Flags: what the API families do with a request, parsers and grammars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sglang.config.args.declare import flag, ignored, later

REASONING_PARSERS = [
    "auto", "cohere_command4", "deepseek-r1", "deepseek-v3", "deepseek-v4", "deepseek-v41", "dots", "gemma4",
    "gigachat35", "glm45", "gpt-oss", "granite_thinking_parser", "hunyuan", "interns1", "kimi", "kimi_k2", "kimi_k3",
    "ling3", "mimo", "minimax", "minimax-append-think", "minimax-m3", "mistral", "nanbeige", "nemotron_3",
    "poolside_v1", "qwen3", "qwen3-thinking", "step3", "step3p5",
]  # fmt: skip
TOOL_CALL_PARSERS = [
    "auto", "cohere_command4", "deepseekv3", "deepseekv31", "deepseekv32", "deepseekv4", "deepseekv41", "gemma4",
    "gigachat3", "gigachat35", "glm", "glm45", "glm47", "gpt-oss", "hermes", "hunyuan", "interns1", "kimi_k2",
    "kimi_k3", "lfm2", "llama3", "mimo", "minimax-m2", "mistral", "nanbeige", "poolside_v1", "pythonic", "qwen",
    "qwen25", "qwen3_coder", "step3", "step3p5", "trinity",
]  # fmt: skip


@dataclass(init=False, repr=False, eq=False)
class ApiArgs:
    """API, parsers and grammars."""

    reasoning_parser: str | None = flag(
        None, "split thinking from the answer; auto: as the chat template shows", choices=REASONING_PARSERS
    )
    tool_call_parser: str | None = flag(
        None, "read tool calls out of the answer; auto: as the chat template shows", choices=TOOL_CALL_PARSERS
    )
    tool_server: str | None = later(None, "'demo' or comma-separated MCP URLs")
    default_chat_template_kwargs: dict[str, Any] | None = flag(
        None, "variables for the chat template (JSON); a request's own win", json=True
    )
    keep_final_role: bool = flag(
        False, "a trailing assistant message of a chat stays one instead of being rendered as one of the user"
    )
    trust_request_chat_template: bool = later(False, "requests may bring a chat template")
    sampling_defaults: str = flag(
        "model", "chat defaults: the model's generation_config, or OpenAI's", choices=["model", "openai"]
    )
    preferred_sampling_params: dict[str, Any] | None = flag(
        None, "sampling parameters under those of requests (JSON)", json=True
    )
    enable_cache_report: bool = flag(False, "usage tells cached prompt tokens")
    return_input_ids: bool = flag(False, "chat answers carry the prompt's token ids")
    return_output_ids: bool = flag(False, "chat answers carry the output's token ids")
    strip_thinking_cache: bool = later(False, "cache prompts only, not answers")
    enable_strict_thinking: bool = later(False, "grammar holds while thinking")
    asr_max_buffer_seconds: int = ignored(60, "seconds of audio a realtime session may hold")
    asr_max_concurrent_sessions: int = ignored(32, "realtime sessions at once")
    enable_dynamic_batch_tokenizer: bool = ignored(False, "tokenize waiting prompts together")
    dynamic_batch_tokenizer_batch_size: int = ignored(32, "prompts tokenized together")
    dynamic_batch_tokenizer_batch_timeout: float = ignored(0.002, "seconds to wait for more")
    enable_tokenizer_batch_encode: bool = ignored(False, "tokenize a batch in one call", harmless=[True])
    disable_tokenizer_batch_decode: bool = ignored(False, "detokenize one by one", harmless=[True])
    enable_custom_logit_processor: bool = later(False, "requests may bring code that changes logits")
    enable_watermark: bool = ignored(False, "watermark the text")
    watermark_config: str | None = ignored(None, "its settings")
    watermark_key: str | None = ignored(None, "its key", secret=True)
    enable_mis: bool = later(False, "score several items in one prompt")

    grammar_backend: str = flag(
        "xgrammar",
        "library for grammars and JSON schemas; none: refuse them",
        choices=["xgrammar", "llguidance", "none"],
    )
    disable_outlines_disk_cache: bool = ignored(False, "outlines without its disk cache")
    constrained_json_whitespace_pattern: str | None = flag(None, "regex of the white space in JSON (llguidance)")
    constrained_json_disable_any_whitespace: bool = flag(False, "compact JSON only")
    constrained_json_max_whitespace_cnt: int | None = flag(None, "white space in a row in JSON; default 16")

    return_hidden_states_mode: str | None = later(None, "hidden states of answers", choices=["last", "full"])
    enable_return_hidden_states: bool = later(False, "same as --return-hidden-states-mode full")
    enable_return_routed_experts: bool = later(False, "answers may carry the experts chosen")
    sampling_mask_max_tokens: int = ignored(4096, "tokens of a sampling mask")
