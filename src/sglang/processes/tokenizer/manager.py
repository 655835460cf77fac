"""The front of the house: takes requests in, sends them to the scheduler, brings outputs back to their callers.

Everything runs in one event loop, the one that first calls an ``async`` method. Nothing of a request is started
before all of it has been checked.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import uuid
from typing import Any, Literal

from sglang.config.env import Env, read_env
from sglang.config.model_config import ModelConfig
from sglang.config.ports import PortArgs
from sglang.config.server_args import ServerArgs
from sglang.ipc import messages as m
from sglang.ipc.async_socket import AsyncPullSocket
from sglang.ipc.errors import InvalidRequest, RequestAborted
from sglang.ipc.inputs import GenerateReqInput
from sglang.ipc.sampling_params import SamplingParams
from sglang.ipc.sockets import PushSocket
from sglang.parsers.choose import choose_reasoning
from sglang.parsers.reasoning import FORMATS as REASONING_FORMATS
from sglang.processes.tokenizer import info
from sglang.processes.tokenizer.build import BuiltRequest, RequestBuilder
from sglang.processes.tokenizer.control import ControlDesk
from sglang.processes.tokenizer.registry import Live, Registry
from sglang.processes.tokenizer.streams import Chunk, FinishReason, RequestGroup, RequestStream
from sglang.processes.tokenizer.validate import Plan, Rules, plan_request
from sglang.text.chat_template import ChatTemplate
from sglang.text.tokenizer import Tokenizer

logger = logging.getLogger(__name__)

Status = Literal["starting", "up", "paused", "stopping", "failed"]

INLINE_CHARS = 4_000
"""Texts up to this length (under a millisecond of work) are tokenised in the event loop, longer ones in a thread."""

PAUSE_MODES = ("abort", "retract", "in_place")
WAITING_ABORT: FinishReason = {"type": "abort", "message": "Abort in waiting queue"}


class TokenizerManager:
    """Requests in, streams out; questions to the scheduler; state of the system."""

    def __init__(
        self,
        server_args: ServerArgs,
        port_args: PortArgs,
        model_config: ModelConfig,
        tokenizer: Tokenizer | None,
        chat_template: ChatTemplate | None,
        scheduler_info: dict[str, Any],
        env: Env | None = None,
    ) -> None:
        self.server_args = server_args
        self.model_config = model_config
        self.tokenizer = tokenizer
        self.chat_template = chat_template
        self.scheduler_info = scheduler_info
        self.env = env or read_env()
        self.status: Status = "up"
        self.failure: str | None = None
        self.rules = _rules(server_args, model_config, tokenizer, chat_template, self.env)
        self._builder = RequestBuilder(
            self.rules, tokenizer, server_args.weight_version, random.Random(server_args.random_seed)
        )
        self._registry = Registry()
        self._running = asyncio.Event()
        self._running.set()
        self._heard = asyncio.Event()
        self._to_scheduler = PushSocket(port_args.scheduler_input_ipc_name)
        self._inbox = AsyncPullSocket(port_args.tokenizer_ipc_name)
        self._control = ControlDesk(self._to_scheduler.send)
        self._loop: asyncio.AbstractEventLoop | None = None

    # -------------------------------------------------------------- requests

    async def submit(self, obj: GenerateReqInput) -> RequestGroup:
        """Check, tokenise and send a request. While generation is paused this waits.

        Raises :class:`InvalidRequest` (or a subclass) before any work has started, :class:`RequestAborted` when the
        system can't take requests any more.
        """
        self._enter()
        plan = plan_request(obj, self.rules)
        built = self._builder.build(plan, await self._tokenize(plan), obj)
        group = RequestGroup(
            built.streams, plan.is_batch or plan.n > 1, self._abort_stream, abort_on_leave=not obj.background
        )
        self._registry.add(group, built.parents)
        if not self._running.is_set():
            await self._hold(group)
        self._send(group, built)
        return group

    async def abort(self, rid: str = "", abort_all: bool = False) -> None:
        """Abort the request with exactly this rid (or the batch or samples it stands for), or all. Unknown: nothing."""
        self._enter()
        chosen = self._registry.all() if abort_all else self._registry.matching(rid)
        for live in chosen:
            self._abort_live(live)

    @property
    def live_requests(self) -> int:
        """Streams that have not finished."""
        return len(self._registry)

    async def drain(self, timeout: float) -> bool:
        """Wait until all requests that were sent have finished; False if it takes longer than ``timeout`` seconds."""
        self._enter()
        try:
            await asyncio.wait_for(self._registry.until_idle(), timeout)
        except asyncio.TimeoutError:
            return False
        return True

    # -------------------------------------------------------------- questions

    async def flush_cache(self, timeout: float = 0.0) -> m.FlushCacheReqOutput:
        """Empty the prefix cache; succeeds only when idle, for which it waits up to ``timeout`` seconds."""
        self._enter()
        return await self._control.ask(m.FlushCacheReqInput(timeout=timeout), m.FlushCacheReqOutput)

    async def internal_states(self) -> list[dict[str, Any]]:
        return [(await self._state()).internal_state]

    async def loads(self) -> list[dict[str, Any]]:
        """The core load record of every scheduler."""
        return [(await self._state()).load]

    async def _state(self) -> m.GetInternalStateReqOutput:
        self._enter()
        return await self._control.ask(m.GetInternalStateReq(), m.GetInternalStateReqOutput)

    async def pause(self, mode: str = "abort") -> m.PauseGenerationReqOutput:
        """Stop generating; new requests wait until :meth:`continue_generation`. ``abort`` waits until none is left."""
        self._enter()
        if mode not in PAUSE_MODES:
            raise InvalidRequest(f"mode: must be one of {', '.join(PAUSE_MODES)}, got {mode!r}", "mode")
        self._running.clear()
        self.status = "paused"
        if mode == "abort":
            for live in self._registry.all():
                self._abort_live(live)
            await self._registry.until_idle()
        return await self._control.ask(m.PauseGenerationReqInput(mode=mode), m.PauseGenerationReqOutput)

    async def continue_generation(self) -> m.ContinueGenerationReqOutput:
        self._enter()
        reply = await self._control.ask(m.ContinueGenerationReqInput(), m.ContinueGenerationReqOutput)
        if self.status == "paused":
            self.status = "up"
        self._running.set()
        return reply

    async def health_generate(self, timeout: float | None = None) -> bool:
        """Send a hidden one-token request; True as soon as anything comes back, False after ``timeout`` seconds."""
        if self.failure is not None:
            return False
        self._enter()
        rid = f"HEALTH_CHECK_{uuid.uuid4().hex}"
        self._heard.clear()
        self._to_scheduler.send(
            m.TokenizedGenerateReqInput(
                rid=rid,
                input_ids=[0],
                sampling_params=SamplingParams(max_new_tokens=1, top_k=1),
                seed=0,
                arrival_time=time.time(),
                is_health_check=True,
            )
        )
        try:
            await asyncio.wait_for(self._heard.wait(), self.env.health_check_timeout if timeout is None else timeout)
        except asyncio.TimeoutError:
            self._to_scheduler.send(m.AbortReq(rid=rid))
            return False
        return self.failure is None

    def model_info(self) -> dict[str, Any]:
        return info.model_info(self.server_args, self.model_config)

    async def server_info(self) -> dict[str, Any]:
        status = "ready" if self.status == "up" else self.status
        return info.server_info(self.server_args, status, self.scheduler_info, await self.internal_states())

    # -------------------------------------------------------------- the end

    def fail(self, reason: str) -> None:
        """A process died: end all requests and questions with an error at once, refuse new ones."""
        if self.failure is not None:
            return
        self.failure = reason
        self.status = "failed"
        gone: FinishReason = {
            "type": "abort", "message": reason, "status_code": 500, "err_type": "InternalServerError"
        }  # fmt: skip
        for live in self._registry.all():
            self._registry.deliver(live, Chunk(finish_reason=gone))
        self._control.fail(RequestAborted(reason, 500))
        self._running.set()
        self._heard.set()

    def fail_from_thread(self, reason: str) -> None:
        """:meth:`fail`, from outside the event loop."""
        loop = self._loop
        if loop is not None and loop.is_running():
            loop.call_soon_threadsafe(self.fail, reason)
        else:
            self.fail(reason)

    def close(self) -> None:
        """End everything and close the sockets. Call it in the event loop, or after that has ended."""
        self.fail("the server is shutting down")
        self._to_scheduler.close()
        self._inbox.close()

    # -------------------------------------------------------------- sending

    def _enter(self) -> None:
        """Every async method passes here first: refuse when the system is gone, start reading on the first call."""
        if self.failure is not None:
            raise RequestAborted(self.failure, 503)
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            self._inbox.listen(self._hear)
        elif self._loop is not loop:
            raise RuntimeError("the tokenizer manager belongs to another event loop; use it from that loop only")

    async def _tokenize(self, plan: Plan) -> list[list[int]]:
        """Token ids of every prompt."""
        texts = [spec.text for spec in plan.prompts if spec.text is not None]
        if not texts:
            return [spec.input_ids or [] for spec in plan.prompts]
        assert self.tokenizer is not None  # texts are refused without one
        if sum(map(len, texts)) <= INLINE_CHARS:
            return [self.tokenizer.encode(text) for text in texts]
        return await asyncio.to_thread(self.tokenizer.encode_batch, texts)

    async def _hold(self, group: RequestGroup) -> None:
        try:
            await self._running.wait()
        except asyncio.CancelledError:
            for live in list(self._registry.of_group(group)):
                self._abort_live(live)
            raise

    def _send(self, group: RequestGroup, built: BuiltRequest) -> None:
        for live in self._registry.of_group(group):  # some may have been aborted while held
            self._to_scheduler.send_encoded(built.frames[live.stream.index])
            self._registry.mark_sent(live)

    def _abort_stream(self, stream: RequestStream) -> None:
        live = self._registry.get(stream.rid)
        if live is not None and live.stream is stream:
            self._abort_live(live)

    def _abort_live(self, live: Live) -> None:
        if live.sent:
            self._to_scheduler.send(m.AbortReq(rid=live.stream.rid))
        else:
            self._registry.deliver(live, Chunk(finish_reason=WAITING_ABORT))

    # -------------------------------------------------------------- receiving

    def _hear(self, message: m.Message) -> None:
        try:
            self._receive(message)
        except Exception:
            logger.exception("could not handle a %s", type(message).__name__)

    def _receive(self, message: m.Message) -> None:
        self._heard.set()
        if isinstance(message, m.BatchStrOutput):
            self._receive_outputs(message, message.output_strs)
        elif isinstance(message, m.BatchTokenIDOutput):
            self._receive_outputs(message, [""] * len(message.rids))
        elif isinstance(message, m.AbortReq):
            live = self._registry.get(message.rid)
            if live is not None:
                self._registry.deliver(live, Chunk(finish_reason=message.finished_reason or WAITING_ABORT))
        elif isinstance(message, m.ControlReq):
            self._control.answer(message)

    def _receive_outputs(self, batch: m.BatchStrOutput | m.BatchTokenIDOutput, texts: list[str]) -> None:
        logprobs = batch.logprobs
        for i, rid in enumerate(batch.rids):
            live = self._registry.get(rid)
            if live is None:  # a health check
                continue
            stream = live.stream
            stream.prompt_tokens = batch.prompt_tokens[i]
            stream.completion_tokens = batch.completion_tokens[i]
            stream.cached_tokens = batch.cached_tokens[i]
            stream.retractions = batch.retraction_counts[i]
            delta = None if logprobs is None else logprobs[i]
            self._registry.deliver(live, Chunk(texts[i], batch.output_ids[i], delta, batch.finished_reasons[i]))


def _rules(
    args: ServerArgs, config: ModelConfig, tokenizer: Tokenizer | None, template: ChatTemplate | None, env: Env
) -> Rules:
    thinking = choose_reasoning(args.reasoning_parser, None if template is None else template.source)
    marker = "" if thinking is None else REASONING_FORMATS[thinking].before_answer
    return Rules(
        vocab_size=config.vocab_size,
        context_length=config.context_length,
        has_tokenizer=tokenizer is not None,
        allow_auto_truncate=args.allow_auto_truncate,
        dp_size=args.dp_size,
        enable_custom_logit_processor=args.enable_custom_logit_processor,
        preferred_sampling_params=args.preferred_sampling_params or {},
        max_new_tokens_limit=env.max_new_tokens_limit,
        grammar_backend=args.grammar_backend,
        think_end_ids=tuple(tokenizer.encode(marker, add_special_tokens=False)) if tokenizer and marker else (),
    )
