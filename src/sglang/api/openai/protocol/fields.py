"""Fields that several OpenAI-style requests share."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, NonNegativeInt

from sglang.api.body import RequestModel

TokenIds = list[int]
Text = str | list[str]


class StreamOptions(RequestModel):
    include_usage: bool | None = None
    continuous_usage_stats: bool = False


class SamplingFields(RequestModel):
    """Sampling parameters by OpenAI's names plus the extensions. Ranges are checked by the tokenizer manager."""

    n: int = 1
    stop: Text | None = None
    stop_token_ids: TokenIds | None = None
    stop_regex: Text | None = None
    no_stop_trim: bool = False
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    min_tokens: int = 0
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: dict[str, float] | None = None
    seed: int | None = None
    custom_params: dict[str, Any] | None = None
    regex: str | None = None
    ebnf: str | None = None
    watermark: dict[str, Any] | None = None


class RoutingFields(RequestModel):
    """How a request is named, queued, cached and routed."""

    model: str = "default"
    rid: Text | None = None
    user: str | None = None
    priority: int | None = None
    extra_key: Text | None = None
    cache_salt: Text | None = None
    lora_path: str | list[str | None] | None = None
    custom_logit_processor: Text | None = None
    custom_labels: dict[str, str] | None = None
    session_id: str | None = None
    routed_dp_rank: int | None = None
    data_parallel_rank: int | None = None
    bootstrap_host: Text | None = None


class ReportFields(RequestModel):
    """What an answer reports beyond the text."""

    stream: bool = False
    stream_options: StreamOptions | None = None
    return_hidden_states: bool | Literal["last"] = False
    return_token_ids: bool = False
    return_cached_tokens_details: bool = False
    return_spec_tokens_details: bool = False
    return_routed_experts: bool = False
    routed_experts_start_len: NonNegativeInt = 0
    response_format: dict[str, Any] | None = Field(
        None, description="type text, json_object, json_schema or structural_tag"
    )
