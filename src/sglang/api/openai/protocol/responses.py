"""Body of POST /v1/responses."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import ConfigDict, Field, field_validator

from sglang.api.body import RequestModel
from sglang.api.openai.protocol.fields import Text

REQUEST_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
MAX_METADATA = 16


class ResponseReasoning(RequestModel):
    effort: str | float | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None


class ResponseText(RequestModel):
    model_config = ConfigDict(extra="allow")

    format: dict[str, Any] | None = Field(None, description="type text, json_object or json_schema")


class ResponseTool(RequestModel):
    """``function`` and ``custom`` tools work; others are accepted and never called."""

    model_config = ConfigDict(extra="allow")

    type: str
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = Field(None, description="JSON schema of the arguments of a function")
    strict: bool = False


class ResponsesRequest(RequestModel):
    input: str | list[dict[str, Any]]
    instructions: str | None = Field(None, description="becomes the system message; not kept for later turns")
    model: str | None = Field(None, description="the served model, if given")
    max_output_tokens: int | None = Field(None, json_schema_extra={"minimum": 1})
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    seed: int | None = None
    stop: Text | None = None
    stream: bool = False
    background: bool = False
    store: bool = True
    previous_response_id: str | None = None
    reasoning: ResponseReasoning | None = None
    text: ResponseText | None = None
    tools: list[ResponseTool] = []
    tool_choice: str | dict[str, Any] = "auto"
    parallel_tool_calls: bool = True
    max_tool_calls: int | None = None
    include: list[str] | None = None
    top_logprobs: int = Field(0, ge=0, le=20)
    truncation: Literal["auto", "disabled"] = Field("disabled", description="echoed; long input is refused either way")
    service_tier: str | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    request_id: str | None = Field(None, description="the id of the response", json_schema_extra={"maxLength": 128})
    chat_template_kwargs: dict[str, Any] | None = None
    session_id: str | None = None
    priority: int | None = None
    extra_key: str | None = None
    cache_salt: str | None = None
    routed_dp_rank: int | None = None
    data_parallel_rank: int | None = None
    conversation: Any = Field(None, description="not supported; use previous_response_id")
    prompt: Any = Field(None, description="not supported; use input and instructions")

    @field_validator("max_output_tokens")
    @classmethod
    def _positive(cls, value: int | None) -> int | None:
        if value is not None and value < 1:
            raise ValueError(f"must be at least 1, got {value}")
        return value

    @field_validator("request_id")
    @classmethod
    def _plain_id(cls, value: str | None) -> str | None:
        if value is not None and REQUEST_ID.fullmatch(value) is None:
            raise ValueError("must be 1 to 128 letters, digits and any of _ . : -")
        return value

    @field_validator("metadata")
    @classmethod
    def _small(cls, value: dict[str, str] | None) -> dict[str, str] | None:
        if value is not None and (
            len(value) > MAX_METADATA or any(len(k) > 64 or len(v) > 512 for k, v in value.items())
        ):
            raise ValueError(f"at most {MAX_METADATA} pairs, keys up to 64 and values up to 512 characters")
        return value

    def wants(self, what: str) -> bool:
        """Whether ``include`` names this."""
        return self.include is not None and what in self.include
