"""Every record that travels between the processes (MessagePack, tagged by class name, never pickle).

Direction              Records
tokenizer → scheduler  TokenizedGenerateReqInput, AbortReq, FlushCacheReqInput, GetInternalStateReq,
                       PauseGenerationReqInput, ContinueGenerationReqInput
scheduler → detokenizer BatchTokenIDOutput (all outputs of one step in one message)
detokenizer → tokenizer BatchStrOutput
scheduler → tokenizer  *ReqOutput, AbortReq (echo of a request dropped while waiting), HealthCheckOutput,
                       BatchTokenIDOutput when the tokenizer is not initialised
child → parent         ProcessReady, ProcessFailed (over the start-up pipe)
"""

from __future__ import annotations

from typing import Any

import msgspec

from sglang.ipc.sampling_params import SamplingParams


class Message(msgspec.Struct, kw_only=True, tag=True, omit_defaults=True):
    """Base of all records; the class name is the wire tag."""


# ------------------------------------------------------------------ tokenizer → scheduler


class TokenizedGenerateReqInput(Message, kw_only=True):
    """One prompt × one sample (n > 1 is expanded by the tokenizer process), ready to schedule."""

    rid: str
    input_ids: list[int]
    sampling_params: SamplingParams
    seed: int
    """Always set: the caller's ``sampling_seed`` (+ sample index) or a fresh draw; non-negative, below 2**63."""
    stream: bool = False
    return_logprob: bool = False
    logprob_start_len: int = -1
    """-1: output logprobs only; otherwise the first prompt position."""
    top_logprobs_num: int = 0
    token_ids_logprob: list[int] | None = None
    return_hidden_states: bool | str = False
    priority: int | None = None
    extra_key: str | None = None
    cache_salt: str | None = None
    lora_id: str | None = None
    stop_special_ids: dict[int, str] = {}
    """Token ids whose text equals one of the stop strings; they stop even under ``ignore_eos``."""
    think_end_ids: list[int] = []
    """Tokens that end the thinking part, where there is one: a grammar holds for what follows it."""
    arrival_time: float = 0.0
    """``time.time()`` when the front process received it."""
    is_health_check: bool = False


class AbortReq(Message, kw_only=True):
    """Abort one request (exact rid) or all. Echoed by the scheduler for requests dropped before they ran."""

    rid: str = ""
    abort_all: bool = False
    finished_reason: dict[str, Any] | None = None


class ControlReq(Message, kw_only=True):
    """Base of question-and-answer control messages; ``call_id`` pairs the answer with the question."""

    call_id: int = 0


class FlushCacheReqInput(ControlReq, kw_only=True):
    timeout: float = 0.0


class FlushCacheReqOutput(ControlReq, kw_only=True):
    success: bool
    message: str = ""


class GetInternalStateReq(ControlReq, kw_only=True):
    pass


class GetInternalStateReqOutput(ControlReq, kw_only=True):
    internal_state: dict[str, Any]
    load: dict[str, Any]
    """The core load record of /v1/loads (see contract of ``GET /v1/loads``)."""


class PauseGenerationReqInput(ControlReq, kw_only=True):
    mode: str = "abort"


class PauseGenerationReqOutput(ControlReq, kw_only=True):
    success: bool = True
    message: str = ""


class ContinueGenerationReqInput(ControlReq, kw_only=True):
    pass


class ContinueGenerationReqOutput(ControlReq, kw_only=True):
    success: bool = True


# ------------------------------------------------------------------ outputs


class LogprobDelta(msgspec.Struct, kw_only=True, omit_defaults=True):
    """New logprob entries of one request since its last message. Parallel lists: values and token ids.

    Input lists come once, with the first output. A ``None`` value stands for "no value" (first prompt token).
    """

    output_val: list[float] = []
    output_idx: list[int] = []
    output_top_val: list[list[float] | None] = []
    output_top_idx: list[list[int] | None] = []
    output_ids_val: list[list[float] | None] = []
    output_ids_idx: list[list[int] | None] = []
    input_val: list[float | None] = []
    input_idx: list[int] = []
    input_top_val: list[list[float] | None] = []
    input_top_idx: list[list[int] | None] = []
    input_ids_val: list[list[float] | None] = []
    input_ids_idx: list[list[int] | None] = []


class DecodeSpec(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What the detokenizer must know about a request; sent once, with its first output."""

    rid: str
    stop: list[str] = []
    stop_regex: list[str] = []
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    no_stop_trim: bool = False


class BatchTokenIDOutput(Message, kw_only=True):
    """All outputs of one scheduler step. The lists are parallel, one entry a request."""

    rids: list[str]
    finished_reasons: list[dict[str, Any] | None]
    output_ids: list[list[int]]
    """New token ids since the request's last message, the stop token included."""
    prompt_tokens: list[int]
    completion_tokens: list[int]
    cached_tokens: list[int]
    retraction_counts: list[int]
    logprobs: list[LogprobDelta | None] | None = None
    """None when nobody in the batch asked."""
    opened: list[DecodeSpec] = []
    """Specs of the requests whose first output this is."""


class BatchStrOutput(Message, kw_only=True):
    """Same as :class:`BatchTokenIDOutput` with the new text of every request."""

    rids: list[str]
    finished_reasons: list[dict[str, Any] | None]
    output_strs: list[str]
    """New text since the request's last message; stop text already trimmed."""
    output_ids: list[list[int]]
    prompt_tokens: list[int]
    completion_tokens: list[int]
    cached_tokens: list[int]
    retraction_counts: list[int]
    logprobs: list[LogprobDelta | None] | None = None


class HealthCheckOutput(Message, kw_only=True):
    rid: str = ""


# ------------------------------------------------------------------ start-up pipe


class ProcessReady(Message, kw_only=True):
    """Sent once by a child when it can serve. ``info`` of the scheduler: max_total_num_tokens, max_req_input_len,
    max_running_requests, context_length, load times ..."""

    role: str
    pid: int
    info: dict[str, Any] = {}


class ProcessFailed(Message, kw_only=True):
    role: str
    reason: str
