"""POST /v1/completions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import orjson
from fastapi import APIRouter, Request, Response

from sglang.api.answers import openai_responses
from sglang.api.body import body_doc, read_body
from sglang.api.chat.adapter import split_model
from sglang.api.chat.constraint import Constraint, choose_constraint
from sglang.api.errors import json_response
from sglang.api.openai.completion_prompt import echoes, set_prompt
from sglang.api.openai.logprobs import completion_logprobs, require_tokenizer
from sglang.api.openai.protocol.completion import CompletionRequest
from sglang.api.openai.stream import stream_answer
from sglang.api.openai.submit import openai_errors, refuse_fields, sampling_params, to_input, wants_usage
from sglang.api.openai.usage import cache_details, finish, metadata, usage
from sglang.api.streaming import unless_disconnected
from sglang.api.work import args, manager, run
from sglang.ipc.errors import InvalidRequest
from sglang.ipc.inputs import GenerateReqInput
from sglang.ipc.messages import LogprobDelta

if TYPE_CHECKING:
    from sglang.processes.tokenizer.manager import TokenizerManager
    from sglang.processes.tokenizer.streams import Chunk, RequestGroup, RequestStream

router = APIRouter(tags=["openai"])

_LATER = ("watermark", "return_routed_experts", "return_spec_tokens_details", "bootstrap_host")


@router.post("/v1/completions", responses=openai_responses(stream=True), openapi_extra=body_doc(CompletionRequest))
async def completions(request: Request) -> Response:
    """Continue one prompt or several."""
    body = await read_body(request, CompletionRequest, json_only=True)
    tm = manager(request)
    with openai_errors():
        refuse_fields(body, _LATER)
        obj = _to_input(request, body)
        form = CompletionForm(tm, body, args(request).enable_cache_report)
        if not body.stream:
            return json_response(form.answer(await run(request, obj)))
        group = await unless_disconnected(request.receive, tm.submit(obj))
    include_usage = wants_usage(body, args(request).stream_response_default_include_usage)
    return await stream_answer(request, group, CompletionWriter(form, group, include_usage))


def _to_input(request: Request, body: CompletionRequest) -> GenerateReqInput:
    sampling = sampling_params(body, body.max_tokens)
    if (constraint := _constraint(body)) is not None:
        kind, text = constraint
        sampling[kind] = text
    obj = to_input(request, body, sampling)
    set_prompt(obj, body, request.app.state.completion_template, manager(request).tokenizer)
    served = args(request).served_model_name or args(request).model_path
    obj.lora_path = split_model(body.model, served)[1] or body.lora_path
    if body.logprobs is not None:
        obj.return_logprob = True
        obj.top_logprobs_num = body.logprobs
        obj.logprob_start_len = 0 if body.echo else -1
    return obj


def _constraint(body: CompletionRequest) -> Constraint | None:
    constraint = choose_constraint(body.response_format, body.regex, body.ebnf)
    if not body.json_schema:
        return constraint
    if constraint is not None:
        raise InvalidRequest("at most one of response_format, json_schema, regex and ebnf can be set", "json_schema")
    return "json_schema", body.json_schema


class CompletionForm:
    """How the answer to one request looks."""

    def __init__(self, tm: TokenizerManager, body: CompletionRequest, cache_report: bool) -> None:
        self.body = body
        self.created = int(time.time())
        self.cache_report = cache_report
        self._tokenizer = require_tokenizer(tm) if body.logprobs is not None else None
        self._echoes = echoes(tm, body) if body.echo else None

    def echo(self, stream: RequestStream) -> str:
        return "" if self._echoes is None else self._echoes[stream.index // self.body.n]

    def logprobs(self, new: LogprobDelta | None) -> dict[str, Any] | None:
        if self._tokenizer is None or self.body.logprobs is None:
            return None
        return completion_logprobs(self._tokenizer, new or LogprobDelta(), self.body.logprobs, prompt=self.body.echo)

    def usage(self, group: RequestGroup) -> dict[str, Any]:
        return usage(group, self.body.n, self.cache_report)

    def answer(self, group: RequestGroup) -> dict[str, Any]:
        answer = {
            "id": group.streams[0].rid,
            "object": "text_completion",
            "created": self.created,
            "model": self.body.model,
            "choices": [self._choice(stream) for stream in group.streams],
            "usage": self.usage(group),
            "metadata": metadata(group.streams[0]),
        }
        if (extension := self.extension(group)) is not None:
            answer["sglext"] = extension
        return answer

    def extension(self, group: RequestGroup) -> dict[str, Any] | None:
        if not self.body.return_cached_tokens_details:
            return None
        return {"cached_tokens_details": cache_details(group)}

    def _choice(self, stream: RequestStream) -> dict[str, Any]:
        reason, matched = finish(stream)
        choice = {
            "index": stream.index,
            "text": self.echo(stream) + stream.text,
            "logprobs": self.logprobs(stream.logprobs),
            "finish_reason": reason,
            "matched_stop": matched,
        }
        if self.body.return_token_ids:
            choice["token_ids"] = stream.output_ids
            choice["prompt_token_ids"] = stream.prompt_ids
        return choice


class CompletionWriter:
    """Chunk bytes: everything that stays the same is written once a choice."""

    def __init__(self, form: CompletionForm, group: RequestGroup, include_usage: bool) -> None:
        self._form = form
        self._group = group
        self._include_usage = include_usage
        options = form.body.stream_options
        self._running_usage = options is not None and options.continuous_usage_stats
        self._heads = [
            self._head(stream) + b'"choices":[{"index":%d,"text":' % stream.index for stream in group.streams
        ]
        self._plain = form.body.logprobs is None and not form.body.return_token_ids and not self._running_usage
        self._opened: set[int] = set()

    def _head(self, stream: RequestStream) -> bytes:
        form = self._form
        head = {"id": stream.rid, "object": "text_completion", "created": form.created, "model": form.body.model}
        return b"data: " + orjson.dumps(head)[:-1] + b","

    def chunk(self, stream: RequestStream, chunk: Chunk) -> bytes:
        first = stream.index not in self._opened
        text = chunk.text
        if first:
            self._opened.add(stream.index)
            text = self._form.echo(stream) + text
        head = self._heads[stream.index] + orjson.dumps(text)
        if self._plain and chunk.finish_reason is None:
            return head + b',"logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":null}\n\n'
        return head + b"," + self._rest(stream, chunk, first)

    def _rest(self, stream: RequestStream, chunk: Chunk, first: bool) -> bytes:
        body = self._form.body
        reason, matched = finish(stream) if chunk.finish_reason is not None else (None, None)
        rest: dict[str, Any] = {
            "logprobs": self._form.logprobs(chunk.logprobs),
            "finish_reason": reason,
            "matched_stop": matched,
        }
        if body.return_token_ids:
            rest["token_ids"] = chunk.output_ids
            if first:
                rest["prompt_token_ids"] = stream.prompt_ids
        counts = self._form.usage(self._group) if self._running_usage else None
        return orjson.dumps(rest)[1:-1] + b'}],"usage":' + orjson.dumps(counts) + b"}\n\n"

    def tail(self) -> bytes:
        head = self._head(self._group.streams[-1])
        data = b""
        if (extension := self._form.extension(self._group)) is not None:
            data += head + b'"choices":[],"sglext":' + orjson.dumps(extension) + b"}\n\n"
        if self._include_usage:
            counts = {key: value for key, value in self._form.usage(self._group).items() if value is not None}
            data += head + b'"choices":[],"usage":' + orjson.dumps(counts) + b"}\n\n"
        return data
