"""Starts chats: checks, renders, submits. One object for each application, shared by all families."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from fastapi import Request

from sglang.api.chat.events import ChatAnswer
from sglang.api.chat.parsing import ChatParsers, ChatPlan
from sglang.api.chat.render import prompt_ids
from sglang.api.chat.request import ChatPrompt, ChatRequest, merge_template_kwargs
from sglang.api.chat.run import ChatRun
from sglang.api.chat.tools import check_tools, rendered_tools
from sglang.api.streaming import unless_disconnected
from sglang.config.env import read_env
from sglang.ipc.errors import InvalidRequest
from sglang.ipc.inputs import GenerateReqInput

if TYPE_CHECKING:
    from sglang.config.server_args import ServerArgs
    from sglang.processes.tokenizer.manager import TokenizerManager

_MODEL_DEFAULTS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


class PromptRefused(InvalidRequest):
    """The prompt was made, but it can't be taken (it is too long)."""


class ChatCore:
    """Requests in neutral form → running chats."""

    def __init__(self, tm: TokenizerManager, args: ServerArgs) -> None:
        self._tm = tm
        self._args = args
        self.parsers = ChatParsers(tm, args)
        self._default_thinking = read_env().default_thinking

    async def prompt_ids(self, chat: ChatRequest, add_generation_prompt: bool = True) -> list[int]:
        """Token ids of the rendered prompt, with the opening of the answer (also for counting tokens)."""
        return await prompt_ids(self._tm, self._prompt(chat, add_generation_prompt))

    async def start(self, chat: ChatRequest) -> ChatRun:
        """Check everything, then submit. Raises InvalidRequest before any work, RequestAborted when it can't start."""
        await check_tools(chat)
        variables = self._template_kwargs(chat)
        ids = chat.input_ids if chat.input_ids is not None else await self.prompt_ids(chat)
        plan = self.parsers.plan(chat, ids, variables)
        try:
            group = await self._tm.submit(self._input(plan, ids))
        except InvalidRequest as error:
            if error.field != "input_ids" or chat.input_ids is not None:
                raise
            raise PromptRefused(str(error).replace("input_ids", "messages", 1), "messages") from None
        return ChatRun(plan, group)

    def _template_kwargs(self, chat: ChatRequest) -> dict[str, Any]:
        server = self._args.default_chat_template_kwargs
        if self._default_thinking:
            server = {"thinking": True, **(server or {})}
        return merge_template_kwargs(server, chat.template_kwargs, chat.reasoning_effort)

    def _prompt(self, chat: ChatRequest, add_generation_prompt: bool = True) -> ChatPrompt:
        return ChatPrompt(
            messages=chat.messages,
            template_kwargs=self._template_kwargs(chat),
            tools=rendered_tools(chat),
            continue_final_message=chat.continue_final_message,
            add_generation_prompt=add_generation_prompt,
            keep_final_role=chat.keep_final_role,
        )

    def _input(self, plan: ChatPlan, ids: list[int]) -> GenerateReqInput:
        chat = plan.chat
        sampling = {"max_new_tokens": None, **chat.sampling}
        if chat.model_defaults and self._args.sampling_defaults == "model":
            sampling = {**self._recommended(), **sampling}
        if plan.constraint is not None:
            kind, text = plan.constraint
            sampling[kind] = text
        if plan.keep_special:
            sampling["skip_special_tokens"] = False
        obj = GenerateReqInput(
            input_ids=ids,
            sampling_params=sampling,
            stream=chat.stream,
            background=chat.background,
            lora_path=chat.adapter,
            require_reasoning=plan.thinks or None,
            **chat.options,
        )
        if chat.logprobs:
            obj.return_logprob = True
            obj.top_logprobs_num = chat.top_logprobs
        return obj

    def _recommended(self) -> dict[str, Any]:
        config = self._tm.model_config.generation_config
        return {name: config[name] for name in _MODEL_DEFAULTS if name in config}


def chat_core(request: Request) -> ChatCore:
    """The application's core."""
    return cast(ChatCore, request.app.state.chat)


async def start_chat(request: Request, chat: ChatRequest) -> ChatRun:
    """Start a chat for a client that may go away meanwhile."""
    work = chat_core(request).start(chat)
    return await (work if chat.background else unless_disconnected(request.receive, work))


async def whole_chat(request: Request, chat: ChatRequest) -> ChatAnswer:
    """The finished answer. Aborts the work when the client goes away.

    Raises InvalidRequest, or RequestAborted where the scheduler ended a choice with an HTTP status.
    """
    work = _whole(chat_core(request), chat)
    return await (work if chat.background else unless_disconnected(request.receive, work))


async def _whole(core: ChatCore, chat: ChatRequest) -> ChatAnswer:
    return await (await core.start(chat)).answer()
