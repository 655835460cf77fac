"""Amazon SageMaker: /invocations answers chats; its probe /ping is with the other probes."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from sglang.api.answers import openai_responses
from sglang.api.body import body_doc, read_body
from sglang.api.openai.chat import answer_chat
from sglang.api.openai.protocol.chat import ChatCompletionRequest

router = APIRouter(tags=["sagemaker"])


@router.post("/invocations", responses=openai_responses(stream=True), openapi_extra=body_doc(ChatCompletionRequest))
async def invocations(request: Request) -> Response:
    """As /v1/chat/completions, whatever media type the body claims to have."""
    return await answer_chat(request, await read_body(request, ChatCompletionRequest))
