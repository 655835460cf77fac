"""Flags: what the API families do with a request, parsers and grammars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sglang.config.args.declare import flag, ignored, later


@dataclass(init=False, repr=False, eq=False)
class ApiArgs:
    """API, parsers and grammars."""

    reasoning_parser: str | None = later(None, "split thinking from the answer")
    tool_call_parser: str | None = later(None, "read tool calls out of the answer")
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

    grammar_backend: str = later(
        "xgrammar", "grammar library", choices=["xgrammar", "outlines", "llguidance", "none"], harmless=["none"]
    )
    disable_outlines_disk_cache: bool = ignored(False, "outlines without its disk cache")
    constrained_json_whitespace_pattern: str | None = ignored(None, "white space allowed in JSON")
    constrained_json_disable_any_whitespace: bool = ignored(False, "compact JSON only")
    constrained_json_max_whitespace_cnt: int | None = ignored(None, "white space allowed in a row")

    return_hidden_states_mode: str | None = later(None, "hidden states of answers", choices=["last", "full"])
    enable_return_hidden_states: bool = later(False, "same as --return-hidden-states-mode full")
    enable_return_routed_experts: bool = later(False, "answers may carry the experts chosen")
    sampling_mask_max_tokens: int = ignored(4096, "tokens of a sampling mask")
