"""Bodies of the Ollama routes. Empty texts and lists count as absent: its SDKs send them."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, NonNegativeInt, field_validator

from sglang.api.body import RequestModel

EFFORTS = ("low", "medium", "high")
DEFAULT_BUDGET = 2048
"""Tokens of an answer where ``num_predict`` is not set."""


def _whole(value: Any) -> Any:
    """Clients in languages with one kind of number write 10.0."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


Whole = Annotated[int, BeforeValidator(_whole)]
KeepAlive = str | float | None
_KEEP_ALIVE = Field(None, description="accepted: the model always stays loaded")


class Options(RequestModel):
    """Sampling options. Names that are not here (num_ctx, mirostat, ...) are ignored."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: Whole | None = Field(None, description="0 or less: all tokens")
    min_p: float | None = None
    num_predict: Whole | None = Field(None, description=f"default {DEFAULT_BUDGET}; negative: up to the context")
    stop: str | list[str] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repeat_penalty: float | None = None
    seed: Whole | None = Field(None, description="negative: a random one")


class CallFunction(RequestModel):
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class PastCall(RequestModel):
    id: str | None = None
    function: CallFunction


class Message(RequestModel):
    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    thinking: str | None = None
    images: list[str] | None = Field(None, description="base64")
    tool_calls: list[PastCall] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None


class ToolFunction(RequestModel):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = Field(None, description="JSON schema of the arguments")


class Tool(RequestModel):
    type: Literal["function"] = "function"
    function: ToolFunction


class AnswerFields(RequestModel):
    """What chat and generate have in common."""

    model: str
    stream: bool = True
    options: Options | None = None
    format: str | dict[str, Any] | None = Field(None, description='"json", or a JSON schema')
    keep_alive: KeepAlive = _KEEP_ALIVE
    think: bool | str | None = Field(None, description=f"true, false, or an effort: {', '.join(EFFORTS)}")
    logprobs: bool = False
    top_logprobs: NonNegativeInt | None = None

    @field_validator("format")
    @classmethod
    def _known_format(cls, value: Any) -> Any:
        if isinstance(value, str) and value not in ("", "json"):
            raise ValueError(f'must be "json" or a JSON schema; got {value[:40]!r}')
        return value

    @field_validator("think")
    @classmethod
    def _known_effort(cls, value: Any) -> Any:
        if isinstance(value, str) and value not in ("", *EFFORTS):
            raise ValueError(f"must be true, false or one of {', '.join(EFFORTS)}; got {value[:40]!r}")
        return value

    @property
    def unloads(self) -> bool:
        """Whether ``keep_alive`` is zero: a request without a prompt then asks to unload the model."""
        if isinstance(self.keep_alive, str):
            return re.fullmatch(r"0+(\.0+)?[a-zµ]*", self.keep_alive.strip()) is not None
        return self.keep_alive == 0


class OllamaChatRequest(AnswerFields):
    messages: list[Message]
    tools: list[Tool] | None = None


class OllamaGenerateRequest(AnswerFields):
    prompt: str
    suffix: str = Field("", description="text behind the gap that the answer fills")
    system: str = ""
    template: str = Field("", description="a template in Ollama's form, used instead of the model's own")
    raw: bool = Field(False, description="no template: the prompt goes to the model as it is")
    context: list[int] | None = Field(None, description="the context of an earlier answer")
    images: list[str] | None = None


class OllamaShowRequest(RequestModel):
    model: str = ""
    name: str = Field("", description="older name of model")


class OllamaEmbedRequest(RequestModel):
    model: str
    input: str | list[str] | None = None
    prompt: str | None = Field(None, description="of the older route")
