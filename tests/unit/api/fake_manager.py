"""A tokenizer manager without a model: every request gets the scripted tokens, one a turn of the event loop."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field
from typing import Any

from sglang.config.model_config import ModelConfig
from sglang.config.server_args import ServerArgs
from sglang.ipc.errors import InvalidRequest, RequestAborted, SchemaError
from sglang.ipc.inputs import GenerateReqInput
from sglang.ipc.messages import FlushCacheReqOutput, LogprobDelta
from sglang.processes.tokenizer.render import StreamOptions
from sglang.processes.tokenizer.streams import Chunk, RequestGroup, RequestStream

VOCAB = 300
PARIS = [" Paris", ".", "\n", "\n", "The"]
LENGTH = "length"


class FakeTokenizer:
    """Ids 0…255 are bytes; 256 is ``<s>``, 257 is ``</s>``. Text ↔ UTF-8 bytes."""

    special_ids = frozenset({256, 257})
    vocab_size = VOCAB
    bos_token_id = 256

    def __init__(self) -> None:
        self.specials = {256: "<s>", 257: "</s>"}

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        head = [256] if add_special_tokens else []
        ids: list[int] = []
        for part in text.replace("<s>", "\0").replace("</s>", "\1").encode():
            ids.append({0: 256, 1: 257}.get(part, part))
        return head + ids

    def encode_batch(self, texts: list[str], add_special_tokens: bool = True) -> list[list[int]]:
        return [self.encode(text, add_special_tokens) for text in texts]

    def token_bytes(self, token: int) -> bytes:
        return self.specials[token].encode() if token in self.specials else bytes([token])

    def special_token_id(self, text: str) -> int | None:
        return next((number for number, special in self.specials.items() if special == text), None)

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        kept = [i for i in ids if not (skip_special_tokens and i in self.specials)]
        return b"".join(self.token_bytes(i) for i in kept).decode("utf-8", "replace")


class FakeTemplate:
    """``<s>role:content;`` for every message; refuses role "tool" in its own words."""

    source = "fake"

    def normalize_messages(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        normal = []
        for message in messages:
            content = message.get("content")
            if isinstance(content, list):
                content = "\n".join(part["text"] for part in content)
            normal.append({**message, "content": content or ""})
        return normal

    def render(
        self, messages: list[dict[str, Any]], *, add_generation_prompt: bool = True, tools: Any = None, **kwargs: Any
    ) -> str:
        if any(message["role"] == "tool" for message in messages):
            raise InvalidRequest("Tool role not supported")
        text = "".join(f"<s>{message['role']}:{message['content']};" for message in messages)
        text += "".join(f"[{key}={value}]" for key, value in sorted(kwargs.items()))
        return text + ("<s>assistant:" if add_generation_prompt else "")


@dataclass
class Script:
    """What the next requests will get."""

    pieces: list[str] = field(default_factory=lambda: list(PARIS))
    ids: list[int] = field(default_factory=lambda: [10, 11, 12, 13, 14])
    finish: dict[str, Any] | None = None
    """None: stop at max_new_tokens or when the pieces run out, both of type length."""
    hang: bool = False
    """Never send anything (until aborted)."""


class FakeTokenizerManager:
    """Same contract as the real one, as far as the doors use it."""

    def __init__(self, server_args: ServerArgs) -> None:
        self.server_args = server_args
        self.model_config = ModelConfig(
            path="model", format="hf", architecture="LlamaForCausalLM", hf={"model_type": "llama"}, vocab_size=VOCAB,
            hidden_size=8, num_layers=1, num_heads=1, num_kv_heads=1, head_dim=8, context_length=2048,
            eos_token_ids=(257,), generation_config={"temperature": 0.6, "top_k": 20},
        )  # fmt: skip
        self.tokenizer: FakeTokenizer | None = FakeTokenizer()
        self.chat_template: FakeTemplate | None = FakeTemplate()
        self.scheduler_info = {"max_total_num_tokens": 4096}
        self.status = "up"
        self.healthy = True
        self.script = Script()
        self.submitted: list[GenerateReqInput] = []
        self.aborted: list[str] = []
        self.calls: list[tuple[Any, ...]] = []
        self.flush = FlushCacheReqOutput(success=True)
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, obj: GenerateReqInput) -> RequestGroup:
        self.submitted.append(obj)
        params = obj.sampling_params or {}
        first = params[0] if isinstance(params, list) and params else params
        assert isinstance(first, dict)
        self._check(obj, first)
        prompts, is_batch = self._prompts(obj)
        n = first.get("n", 1)
        streams = []
        for index in range(len(prompts) * n):
            rid = self._rid(obj, index, len(prompts) * n)
            options = StreamOptions(
                index=index, rid=rid, return_logprob=bool(obj.return_logprob),
                top_logprobs_num=obj.top_logprobs_num if isinstance(obj.top_logprobs_num, int) else 0,
                return_prompt_token_ids=bool(obj.return_prompt_token_ids),
            )  # fmt: skip
            streams.append(RequestStream(options, prompts[index // n]))
        group = RequestGroup(streams, is_batch or n > 1, self._abort_stream, abort_on_leave=not obj.background)
        self._group = group
        budget = first.get("max_new_tokens", 128)
        task = asyncio.ensure_future(self._play(group, budget, bool(obj.return_logprob), obj.logprob_start_len == 0))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return group

    def _check(self, obj: GenerateReqInput, params: dict[str, Any]) -> None:
        if self.status == "failed":
            raise RequestAborted("the scheduler died", 503)
        if obj.text is None and obj.input_ids is None:
            raise InvalidRequest("give one of text, input_ids or input_embeds")
        prompt = obj.text if obj.input_ids is None else obj.input_ids
        if not prompt or (isinstance(prompt, list) and [] in prompt):
            raise InvalidRequest("text: the prompt is empty")
        if isinstance(obj.rid, list) and not obj.rid:
            raise InvalidRequest("rid: one id a prompt is needed")
        if isinstance(params.get("temperature"), str):
            raise SchemaError('invalid type: string "hot", expected f64')
        if params.get("temperature", 1) < 0:
            raise InvalidRequest(f"temperature must be a non-negative finite number, got {params['temperature']}.")
        if isinstance(obj.top_logprobs_num, int) and not 0 <= obj.top_logprobs_num <= VOCAB:
            raise InvalidRequest(f"top_logprobs_num must be in [0, {VOCAB}], got {obj.top_logprobs_num}.")
        if not 1 <= params.get("n", 1) <= 64:
            raise InvalidRequest(f"n must be in [1, 64], got {params['n']}.")

    def _prompts(self, obj: GenerateReqInput) -> tuple[list[list[int]], bool]:
        assert self.tokenizer is not None
        if obj.input_ids is not None:
            batch = isinstance(obj.input_ids[0], list)
            return (obj.input_ids if batch else [obj.input_ids]), batch  # type: ignore[return-value,list-item]
        texts = obj.text if isinstance(obj.text, list) else [obj.text or ""]
        return [self.tokenizer.encode(text) for text in texts], isinstance(obj.text, list)

    def _rid(self, obj: GenerateReqInput, index: int, total: int) -> str:
        if isinstance(obj.rid, list):
            return obj.rid[index]
        if obj.rid is None:
            return uuid.uuid4().hex
        return obj.rid if total == 1 else f"{obj.rid}_{index}"

    async def _play(self, group: RequestGroup, budget: int | None, logprobs: bool, with_prompt: bool) -> None:
        script = self.script
        if script.hang:
            return
        count = len(script.pieces) if budget is None else min(budget, len(script.pieces))
        for position in range(count):
            while group._pending:  # one chunk an event, however slowly the consumer reads
                await asyncio.sleep(0)
            for stream in group.streams:
                last = position == count - 1
                end = (script.finish or {"type": LENGTH, "length": budget}) if last else None
                stream.completion_tokens = position + 1
                delta = self._logprobs(stream, position, with_prompt) if logprobs else None
                group.deliver(stream, Chunk(script.pieces[position], [script.ids[position]], delta, end))

    def _logprobs(self, stream: RequestStream, position: int, with_prompt: bool) -> LogprobDelta:
        token = self.script.ids[position]
        delta = LogprobDelta(output_val=[-0.5 - position], output_idx=[token])
        top = stream.options.top_logprobs_num
        if top:
            delta.output_top_val = [[-0.5 - position - rank for rank in range(top)]]
            delta.output_top_idx = [[token + rank for rank in range(top)]]
        if with_prompt and position == 0:
            ids = stream.prompt_ids
            delta.input_val = [None, *(-1.0 for _ in ids[1:])]
            delta.input_idx = list(ids)
            if top:
                delta.input_top_val = [None, *([-1.0] * top for _ in ids[1:])]
                delta.input_top_idx = [None, *([token] * top for token in ids[1:])]
        return delta

    def _abort_stream(self, stream: RequestStream) -> None:
        self.aborted.append(stream.rid)

    @property
    def rid(self) -> str:
        """Of the last request's first stream."""
        return self._group.streams[0].rid

    def deliver_one(self, text: str, token: int) -> None:
        """One token for every stream of the last request."""
        for stream in self._group.streams:
            self._group.deliver(stream, Chunk(text, [token]))

    def finish_aborted(self) -> None:
        """What the scheduler would send for aborted streams."""
        for stream in self._group.streams:
            self._group.deliver(stream, Chunk(finish_reason={"type": "abort", "message": "Aborted"}))

    async def abort(self, rid: str = "", abort_all: bool = False) -> None:
        self.calls.append(("abort", rid, abort_all))

    async def flush_cache(self, timeout: float = 0.0) -> FlushCacheReqOutput:
        self.calls.append(("flush", timeout))
        return self.flush

    async def pause(self, mode: str = "abort") -> None:
        self.calls.append(("pause", mode))
        self.status = "paused"

    async def continue_generation(self) -> None:
        self.status = "up"

    async def health_generate(self, timeout: float | None = None) -> bool:
        self.calls.append(("health", timeout))
        return self.healthy

    async def loads(self) -> list[dict[str, Any]]:
        return [
            {
                "timestamp": 1.0, "dp_rank": 0, "num_running_reqs": 2, "num_waiting_reqs": 1, "num_used_tokens": 50,
                "token_usage": 0.25, "memory": {"token_capacity": 4096}, "queues": {"waiting": 1},
            }
        ]  # fmt: skip

    def model_info(self) -> dict[str, Any]:
        return {"model_path": "model", "is_generation": True}

    async def server_info(self) -> dict[str, Any]:
        return {**self.server_args.public_dict(), "internal_states": [{}], "version": "x"}
