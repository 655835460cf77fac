"""Bodies of the native routes. Types are strict; ranges and combinations are checked by the tokenizer manager."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal

from pydantic import Field

from sglang.api.body import RequestModel
from sglang.api.errors import native_error
from sglang.ipc.inputs import GenerateReqInput

Text = str | list[str]
Ids = list[int] | list[list[int]]
Flag = bool | list[bool]
Number = int | list[int]

_INPUT_FIELDS = frozenset(field.name for field in fields(GenerateReqInput))


class GenerateRequest(RequestModel):
    """One prompt or a batch. The prompt is ``text``, else ``input_ids``."""

    text: Text | None = None
    input_ids: Ids | None = None
    input_embeds: list[list[float]] | list[list[list[float]]] | None = None
    sampling_params: dict[str, Any] | list[dict[str, Any]] | None = Field(
        None, description="max_new_tokens, temperature, top_p, top_k, stop …; a list has one entry a prompt"
    )
    return_logprob: Flag | None = None
    logprob_start_len: Number | None = Field(None, description="-1: no prompt logprobs; 0: all of the prompt")
    top_logprobs_num: Number | None = None
    token_ids_logprob: Ids | None = None
    return_text_in_logprobs: bool | None = None
    stream: bool | None = None
    return_hidden_states: bool | Literal["last"] | list[bool | Literal["last"]] | None = None
    return_prompt_token_ids: bool | None = None
    rid: Text | None = None
    image_data: Any = None
    video_data: Any = None
    audio_data: Any = None
    modalities: list[str] | None = None
    lora_path: str | list[str | None] | None = None
    session_params: dict[str, Any] | None = None
    session_id: str | None = None
    custom_logit_processor: str | list[str | None] | None = None
    priority: int | None = None
    extra_key: Text | None = None
    cache_salt: Text | None = None
    routed_dp_rank: int | None = None
    data_parallel_rank: int | None = None
    require_reasoning: bool | None = None
    max_thinking_tokens: int | None = None
    no_logs: bool | None = None
    log_metrics: bool | None = None
    custom_labels: dict[str, str] | None = None
    background: bool | None = None

    return_sampling_mask: bool = False
    sampling_logprobs_mode: str | None = None
    return_flat_raw_top_logprobs: bool = False
    return_flat_raw_output_top_logprobs: bool = False
    return_flat_raw_top_logprobs_b64: bool = False
    return_routed_experts: bool = False
    return_entropy: bool = False
    bootstrap_host: Text | None = None

    def to_input(self) -> GenerateReqInput:
        self._refuse_later_features()
        given = {name: getattr(self, name) for name in self.model_fields_set & _INPUT_FIELDS}
        return GenerateReqInput(**given)

    def _refuse_later_features(self) -> None:
        for name in LATER_FEATURES:
            if getattr(self, name):
                raise native_error(f"{name} is not supported yet; leave it out")


LATER_FEATURES = (
    "return_sampling_mask",
    "sampling_logprobs_mode",
    "return_flat_raw_top_logprobs",
    "return_flat_raw_output_top_logprobs",
    "return_flat_raw_top_logprobs_b64",
    "return_routed_experts",
    "return_entropy",
    "bootstrap_host",
)


class AbortRequest(RequestModel):
    rid: str = Field("", description="exact request id; the id of a batch or of n > 1 aborts its parts too")
    abort_all: bool = False


class PauseRequest(RequestModel):
    mode: Literal["abort", "retract", "in_place"] = "abort"


class ContinueRequest(RequestModel):
    torch_empty_cache: bool = Field(True, description="accepted; nothing to empty on this server")


class ConfigureLoggingRequest(RequestModel):
    log_requests: bool | None = None
    log_requests_level: int | None = None
    log_requests_format: str | None = None
    log_level: Literal["debug", "info", "warning", "error", "critical"] | None = None
    dump_requests_folder: str | None = None
    dump_requests_threshold: int | None = None
    crash_dump_folder: str | None = None
    dump_requests_exclude_meta_keys: list[str] | None = None
