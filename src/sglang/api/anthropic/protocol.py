"""Bodies of the Anthropic routes."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from sglang.api.anthropic.blocks import Block, TextBlock
from sglang.api.body import RequestModel

MIN_THINKING_BUDGET = 1024
_SERVER_TOOL = re.compile(r"[a-z][a-z0-9_]*_\d{8}")


class Message(RequestModel):
    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


class Thinking(RequestModel):
    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: int | None = Field(None, description="needed by type enabled; not enforced")
    display: str | None = Field(None, description="ignored")

    @model_validator(mode="after")
    def _has_budget(self) -> Thinking:
        if self.type == "enabled" and (self.budget_tokens is None or self.budget_tokens < MIN_THINKING_BUDGET):
            raise ValueError(
                f"type 'enabled' needs budget_tokens of at least {MIN_THINKING_BUDGET}, got {self.budget_tokens}"
            )
        return self


class Tool(RequestModel):
    """A tool of the caller, or (with a dated type) one that Anthropic's servers would run."""

    type: str | None = None
    name: str | None = None
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None
    defer_loading: bool | None = Field(None, description="ignored: all tools are shown to the model")

    @model_validator(mode="after")
    def _known(self) -> Tool:
        if self.type not in (None, "custom"):
            if _SERVER_TOOL.fullmatch(self.type or "") is None:
                raise ValueError(f"type must be 'custom' or a dated server tool; got {(self.type or '')[:60]!r}")
        elif not self.name or self.input_schema is None:
            raise ValueError("a tool needs the fields name and input_schema")
        return self

    @property
    def is_custom(self) -> bool:
        return self.type in (None, "custom")


class ToolChoice(RequestModel):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool = False

    @model_validator(mode="after")
    def _named(self) -> ToolChoice:
        if self.type == "tool" and not self.name:
            raise ValueError("type 'tool' needs the field name")
        return self


class OutputFormat(RequestModel):
    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class TaskBudget(RequestModel):
    type: Literal["tokens"]
    total: int | None = None
    remaining: int | None = None


class OutputConfig(RequestModel):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    task_budget: TaskBudget | None = Field(None, description="ignored")
    format: OutputFormat | None = None


class PromptFields(RequestModel):
    """What decides the prompt."""

    model: str = Field(min_length=1)
    messages: list[Message] = Field(json_schema_extra={"minItems": 1})
    system: str | list[TextBlock] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = Field(None, description="older place of output_config.format")
    betas: list[str] | None = Field(None, description="ignored")

    @field_validator("messages")
    @classmethod
    def _some(cls, value: list[Message]) -> list[Message]:
        if not value:
            raise ValueError("must not be empty")
        return value


class CountTokensRequest(PromptFields):
    pass


class MessagesRequest(PromptFields):
    max_tokens: int = Field(json_schema_extra={"minimum": 1})
    stop_sequences: list[str] | None = None
    stream: bool = False
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    metadata: dict[str, Any] | None = Field(None, description="ignored")

    rid: str | None = None
    priority: int | None = None
    extra_key: str | None = None
    cache_salt: str | None = None
    routed_dp_rank: int | None = None
    data_parallel_rank: int | None = None
    bootstrap_host: str | None = Field(None, description="not supported")

    @field_validator("max_tokens")
    @classmethod
    def _positive(cls, value: int) -> int:
        if value < 1:
            raise ValueError(f"must be at least 1, got {value}")
        return value
