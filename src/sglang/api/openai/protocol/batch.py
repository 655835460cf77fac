"""Body of POST /v1/batches."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from sglang.api.body import RequestModel

ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/v1/responses")
MAX_METADATA = 16
SHORTEST_LIFE = 3_600
LONGEST_LIFE = 2_592_000
"""Seconds until a file expires: an hour to 30 days."""


class ExpiresAfter(RequestModel):
    anchor: Literal["created_at"]
    seconds: int = Field(ge=SHORTEST_LIFE, le=LONGEST_LIFE)


class BatchRequestBody(RequestModel):
    input_file_id: str
    endpoint: Literal["/v1/chat/completions", "/v1/completions", "/v1/responses"]
    completion_window: Literal["24h"]
    metadata: dict[str, str] | None = Field(None, json_schema_extra={"maxProperties": MAX_METADATA})
    output_expires_after: ExpiresAfter | None = None

    @field_validator("metadata")
    @classmethod
    def _small(cls, value: dict[str, str] | None) -> dict[str, str] | None:
        if value is not None and (
            len(value) > MAX_METADATA or any(len(k) > 64 or len(v) > 512 for k, v in value.items())
        ):
            raise ValueError(f"at most {MAX_METADATA} pairs, keys up to 64 and values up to 512 characters")
        return value
