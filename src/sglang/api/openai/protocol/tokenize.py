"""Bodies of the tokenize and detokenize routes."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from sglang.api.body import RequestModel
from sglang.api.openai.protocol.chat import ChatMessage, NamedToolChoice, Tool
from sglang.api.openai.protocol.fields import TokenIds


class TokenizeRequest(RequestModel):
    """Exactly one of ``prompt`` and ``messages``."""

    model: str = "default"
    prompt: str | list[str] | None = None
    messages: list[ChatMessage] | None = Field(None, json_schema_extra={"minItems": 1})
    tools: list[Tool] | None = None
    tool_choice: Literal["auto", "none", "required"] | NamedToolChoice | None = None
    reasoning_effort: str | float | None = None
    continue_final_message: bool = False
    chat_template_kwargs: dict[str, Any] | None = None
    add_special_tokens: bool = True
    add_generation_prompt: bool | None = None

    @model_validator(mode="after")
    def _one_source(self) -> TokenizeRequest:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("give exactly one of prompt and messages")
        return self


class DetokenizeRequest(RequestModel):
    model: str = "default"
    tokens: TokenIds | list[TokenIds]
    skip_special_tokens: bool = True
