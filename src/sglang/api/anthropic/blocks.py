"""Content blocks of messages that come in."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sglang.api.body import RequestModel


class TextBlock(RequestModel):
    type: Literal["text"]
    text: str


class ImageSource(RequestModel):
    type: Literal["base64", "url"]
    media_type: str | None = None
    data: str | None = None
    url: str | None = None

    @model_validator(mode="after")
    def _complete(self) -> ImageSource:
        if self.type == "url" and self.url is None:
            raise ValueError("a source of type 'url' needs the field url")
        if self.type == "base64" and (self.data is None or self.media_type is None):
            raise ValueError("a source of type 'base64' needs the fields media_type and data")
        return self


class ImageBlock(RequestModel):
    type: Literal["image"]
    source: ImageSource


class SearchResultBlock(RequestModel):
    type: Literal["search_result"]
    source: str
    title: str
    content: list[TextBlock]


class ToolReferenceBlock(RequestModel):
    type: Literal["tool_reference"]
    tool_name: str


class ToolUseBlock(RequestModel):
    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]


ResultBlock = Annotated[TextBlock | ImageBlock | SearchResultBlock | ToolReferenceBlock, Field(discriminator="type")]


class ToolResultBlock(RequestModel):
    type: Literal["tool_result"]
    tool_use_id: str | None = None
    id: str | None = Field(None, description="older name of tool_use_id")
    content: str | list[ResultBlock] | None = None
    is_error: bool | None = Field(None, description="ignored")

    @model_validator(mode="after")
    def _names_its_call(self) -> ToolResultBlock:
        if self.tool_use_id is None and self.id is None:
            raise ValueError("a block of type 'tool_result' needs the field tool_use_id")
        return self

    @property
    def call_id(self) -> str:
        return self.tool_use_id or self.id or ""


class ThinkingBlock(RequestModel):
    type: Literal["thinking"]
    thinking: str
    signature: str | None = Field(None, description="ignored")


class RedactedThinkingBlock(RequestModel):
    type: Literal["redacted_thinking"]
    data: str | None = None

    @model_validator(mode="after")
    def _refuse(self) -> RedactedThinkingBlock:
        raise ValueError("redacted_thinking can't be read by this server; leave the block out")


Block = Annotated[
    TextBlock
    | ImageBlock
    | ToolUseBlock
    | ToolResultBlock
    | SearchResultBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ToolReferenceBlock,
    Field(discriminator="type"),
]
