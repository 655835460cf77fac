"""What a caller of ``/generate`` or ``Engine.generate`` hands in, before it is checked, batched and tokenised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class GenerateReqInput:
    """One request of the native API: one prompt or a batch. ``None`` in an optional field means "absent"."""

    text: str | list[str] | None = None
    input_ids: list[int] | list[list[int]] | None = None
    input_embeds: list[list[float]] | list[list[list[float]]] | None = None
    sampling_params: dict[str, Any] | list[dict[str, Any]] | None = None
    return_logprob: bool | list[bool] | None = None
    logprob_start_len: int | list[int] | None = None
    top_logprobs_num: int | list[int] | None = None
    token_ids_logprob: list[int] | list[list[int]] | None = None
    return_text_in_logprobs: bool | None = None
    stream: bool | None = None
    return_hidden_states: bool | str | list[bool | str] | None = None
    return_prompt_token_ids: bool | None = None
    rid: str | list[str] | None = None
    image_data: Any = None
    video_data: Any = None
    audio_data: Any = None
    modalities: list[str] | None = None
    lora_path: str | list[str | None] | None = None
    session_params: dict[str, Any] | None = None
    session_id: str | None = None
    custom_logit_processor: str | list[str | None] | None = None
    priority: int | None = None
    extra_key: str | list[str] | None = None
    cache_salt: str | list[str] | None = None
    routed_dp_rank: int | None = None
    data_parallel_rank: int | None = None
    require_reasoning: bool | None = None
    max_thinking_tokens: int | None = None
    no_logs: bool | None = None
    log_metrics: bool | None = None
    custom_labels: dict[str, str] | None = None
    background: bool | None = None
