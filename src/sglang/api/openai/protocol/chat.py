"""Body of POST /v1/chat/completions."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field, NonNegativeInt, field_validator, model_validator

from sglang.api.body import RequestModel
from sglang.api.openai.protocol.fields import ReportFields, RoutingFields, SamplingFields, TokenIds

ROLES = ("system", "user", "assistant", "tool", "function", "developer", "latest_reminder", "root")
PART_TYPES = Literal[
    "text", "thinking", "reasoning", "image_url", "video_url", "audio_url", "input_audio", "tool_reference"
]


class ContentPart(RequestModel):
    model_config = ConfigDict(extra="allow")

    type: PART_TYPES
    text: str | None = None

    @model_validator(mode="after")
    def _text_has_text(self) -> ContentPart:
        if self.type == "text" and self.text is None:
            raise ValueError("a part of type 'text' needs the field text")
        return self


class ChatMessage(RequestModel):
    role: str = Field(json_schema_extra={"enum": list(ROLES)})
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    reasoning_content: str | None = None

    @field_validator("role")
    @classmethod
    def _known_role(cls, value: str) -> str:
        role = value.lower()
        if role not in ROLES or (role == "user" and value != "user"):
            raise ValueError(f"must be one of {', '.join(ROLES)}; got {value[:40]!r}")
        return role

    @model_validator(mode="after")
    def _user_has_content(self) -> ChatMessage:
        if self.role == "user" and self.content is None:
            raise ValueError("a message of role user needs the field content")
        return self


class ToolFunction(RequestModel):
    model_config = ConfigDict(extra="allow")

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = Field(None, description="JSON schema of the arguments")
    strict: bool = Field(False, description="constrain the arguments by the schema also under tool_choice auto")


class Tool(RequestModel):
    model_config = ConfigDict(extra="allow")

    type: Literal["function"] = "function"
    function: ToolFunction


class NamedFunction(RequestModel):
    name: str


class NamedToolChoice(RequestModel):
    type: Literal["function"] = "function"
    function: NamedFunction


class ReasoningOptions(RequestModel):
    effort: str | float | None = None
    reasoning_effort: str | float | None = None
    enabled: bool | None = None
    enable: bool | None = None


class ChatCompletionRequest(SamplingFields, RoutingFields, ReportFields):
    messages: list[ChatMessage] = Field(json_schema_extra={"minItems": 1})
    input_ids: TokenIds | None = Field(None, description="use these instead of rendering the messages")
    max_tokens: int | None = Field(None, json_schema_extra={"minimum": 1})
    max_completion_tokens: int | None = Field(
        None, description="wins over max_tokens", json_schema_extra={"minimum": 1}
    )
    logprobs: bool = False
    top_logprobs: NonNegativeInt | None = Field(None, description="used only with logprobs")
    tools: list[Tool] | None = None
    tool_choice: Literal["auto", "none", "required"] | NamedToolChoice | None = None
    parallel_tool_calls: bool = True
    reasoning_effort: str | float | None = None
    reasoning: ReasoningOptions | None = None
    separate_reasoning: bool = True
    stream_reasoning: bool = True
    chat_template_kwargs: dict[str, Any] | None = None
    continue_final_message: bool = False
    keep_final_role: bool = Field(
        False, description="a trailing assistant message stays one instead of being rendered as one of the user"
    )
    return_prompt_token_ids: bool = False
    return_meta_info: bool = False
    return_input_ids_in_sglext: bool = False
    return_output_ids_in_sglext: bool = False
    return_sampling_mask: bool = False
    sampling_logprobs_mode: str | None = None
    return_flat_raw_output_top_logprobs: bool = False

    @field_validator("max_tokens", "max_completion_tokens")
    @classmethod
    def _positive(cls, value: int | None) -> int | None:
        if value is not None and value < 1:
            raise ValueError(f"must be at least 1, got {value}")
        return value

    @property
    def token_budget(self) -> int | None:
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens
