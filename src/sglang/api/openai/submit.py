"""What completions and chat have in common on the way in: parameters, routing, refusal of later features."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from fastapi import Request

from sglang.api.errors import openai_api_error, openai_error
from sglang.api.openai.protocol.chat import ChatCompletionRequest
from sglang.api.openai.protocol.completion import CompletionRequest
from sglang.api.openai.protocol.fields import SamplingFields
from sglang.ipc.errors import InvalidRequest, RequestAborted
from sglang.ipc.inputs import GenerateReqInput

_RENAMED = {"min_tokens": "min_new_tokens", "seed": "sampling_seed"}
_GRAMMAR = ("regex", "ebnf", "watermark")
_SAMPLING = tuple(name for name in SamplingFields.model_fields if name not in _GRAMMAR)
_ROUTING = (
    "rid",
    "priority",
    "extra_key",
    "cache_salt",
    "lora_path",
    "custom_logit_processor",
    "custom_labels",
    "session_id",
    "routed_dp_rank",
    "data_parallel_rank",
)


OpenAIBody = CompletionRequest | ChatCompletionRequest


@contextmanager
def openai_errors() -> Iterator[None]:
    """Give refused and aborted requests this family's error body."""
    try:
        yield
    except (InvalidRequest, RequestAborted) as error:
        raise openai_api_error(error) from None


def wants_usage(body: OpenAIBody, default: bool) -> bool:
    options = body.stream_options
    return default if options is None or options.include_usage is None else options.include_usage


def refuse_fields(body: SamplingFields, names: Iterable[str]) -> None:
    """Refuse what would silently change nothing."""
    for name in names:
        if getattr(body, name):
            raise openai_error(f"{name} is not supported yet; leave it out")


def sampling_params(body: SamplingFields, max_new_tokens: int | None) -> dict[str, Any]:
    """What the caller set, by native names. Everything else is left to the server's defaults."""
    given = {_RENAMED.get(name, name): getattr(body, name) for name in _SAMPLING if name in body.model_fields_set}
    given["max_new_tokens"] = max_new_tokens
    return given


def chat_options(request: Request, body: ChatCompletionRequest) -> dict[str, Any]:
    """The fields of a native request that say how it is named, queued, cached and routed."""
    options = {name: getattr(body, name) for name in _ROUTING if name != "lora_path"}
    options["return_hidden_states"] = body.return_hidden_states
    if (rank := routing_rank(request)) is not None:
        options["routed_dp_rank"] = rank
    return options


def to_input(request: Request, body: OpenAIBody, sampling: dict[str, Any]) -> GenerateReqInput:
    """A native request with everything but the prompt and logprobs."""
    obj = GenerateReqInput(
        sampling_params=sampling,
        stream=body.stream,
        return_hidden_states=body.return_hidden_states,
        **{name: getattr(body, name) for name in _ROUTING},
    )
    if (rank := routing_rank(request)) is not None:
        obj.routed_dp_rank = rank
    return obj


def routing_rank(request: Request) -> int | None:
    """The data-parallel rank that a header asks for."""
    if (rank := request.headers.get("x-data-parallel-rank")) is None:
        return None
    try:
        return int(rank)
    except ValueError:
        raise openai_error(f"header X-Data-Parallel-Rank: must be an integer, got {rank[:40]!r}") from None
