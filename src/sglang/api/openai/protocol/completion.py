"""Body of POST /v1/completions."""

from __future__ import annotations

from pydantic import Field, NonNegativeInt, field_validator

from sglang.api.openai.protocol.fields import ReportFields, RoutingFields, SamplingFields, TokenIds


class CompletionRequest(SamplingFields, RoutingFields, ReportFields):
    prompt: str | list[str] | TokenIds | list[TokenIds] = Field(description="text or token ids, one prompt or several")
    max_tokens: int = Field(16, json_schema_extra={"minimum": 1})
    echo: bool = False
    logprobs: NonNegativeInt | None = Field(None, description="alternatives a token; 0: the chosen token only")
    suffix: str | None = Field(None, description="text behind the gap; needs --completion-template, else ignored")
    best_of: int | None = Field(None, description="accepted, ignored: n samples are drawn and all are returned")
    json_schema: str | None = None

    @field_validator("max_tokens")
    @classmethod
    def _positive(cls, value: int) -> int:
        if value < 1:
            raise ValueError(f"must be at least 1, got {value}")
        return value
