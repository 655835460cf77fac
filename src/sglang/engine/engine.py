"""``sglang.Engine``: a whole system held by a Python object, with blocking and asynchronous methods."""

from __future__ import annotations

import threading
import weakref
from collections.abc import AsyncGenerator, Generator
from typing import Any

from sglang.config.server_args import ServerArgs
from sglang.engine.background_loop import BackgroundLoop
from sglang.engine.children import DETOKENIZER_ENTRY, SCHEDULER_ENTRY, Entry
from sglang.engine.launcher import System, launch_system
from sglang.ipc.errors import InvalidRequest
from sglang.ipc.inputs import GenerateReqInput
from sglang.ipc.messages import FlushCacheReqOutput
from sglang.processes.tokenizer.manager import TokenizerManager

Result = dict[str, Any]


class Engine:
    """Serves a model in this program.

    Takes the fields of :class:`ServerArgs` as keyword arguments, or one ``server_args``. Child processes are spawned:
    create it under ``if __name__ == "__main__":``. All methods work from any thread; the ``async_`` ones from any
    event loop. Invalid requests raise ``ValueError`` (an unknown sampling parameter also ``TypeError``); requests
    that the system drops raise :class:`sglang.ipc.errors.RequestAborted` with an HTTP status.
    """

    server_args_class = ServerArgs
    init_tokenizer_manager_func = TokenizerManager
    run_scheduler_process_func: Entry = SCHEDULER_ENTRY
    run_detokenizer_process_func: Entry = DETOKENIZER_ENTRY

    def __init__(self, **kwargs: Any) -> None:
        server_args = kwargs.pop("server_args", None)
        if server_args is None:
            server_args = self.server_args_class(**{"log_level": "error", **kwargs})
        elif kwargs:
            raise TypeError(f"give either server_args or single settings, not both; got also {sorted(kwargs)}")
        cls = type(self)
        system = launch_system(
            server_args,
            scheduler_entry=cls.run_scheduler_process_func,
            detokenizer_entry=cls.run_detokenizer_process_func,
            manager_type=cls.init_tokenizer_manager_func,
        )
        self.loop = BackgroundLoop()
        # Runs once: by shutdown(), when the object is dropped, or at interpreter exit.
        self._finalizer = weakref.finalize(self, _end, system, self.loop)
        self._system = system
        self.server_args = system.server_args
        self.port_args = system.port_args
        self.tokenizer_manager = system.tokenizer_manager
        self.template_manager = system.tokenizer_manager.chat_template
        self.scheduler_info = system.scheduler_info

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def shutdown(self) -> None:
        """End all processes and pending requests. Idempotent."""
        self._finalizer()

    # -------------------------------------------------------------- generate

    def generate(
        self,
        prompt: str | list[str] | None = None,
        sampling_params: dict[str, Any] | list[dict[str, Any]] | None = None,
        input_ids: list[int] | list[list[int]] | None = None,
        image_data: Any = None,
        audio_data: Any = None,
        video_data: Any = None,
        mm_hashes: Any = None,
        mm_content_hashes: Any = None,
        return_logprob: bool | list[bool] = False,
        logprob_start_len: int | list[int] | None = None,
        top_logprobs_num: int | list[int] | None = None,
        token_ids_logprob: list[int] | list[list[int]] | None = None,
        lora_path: str | list[str | None] | None = None,
        custom_logit_processor: str | list[str | None] | None = None,
        require_reasoning: bool = False,
        return_hidden_states: bool | str = False,
        return_routed_experts: bool = False,
        routed_experts_start_len: int = 0,
        stream: bool = False,
        bootstrap_host: Any = None,
        bootstrap_port: Any = None,
        bootstrap_room: Any = None,
        routed_dp_rank: int | None = None,
        disagg_prefill_dp_rank: int | None = None,
        kv_hints: Any = None,
        data_parallel_rank: int | None = None,
        external_trace_header: dict[str, str] | None = None,
        rid: str | list[str] | None = None,
        session_params: dict[str, Any] | None = None,
        priority: int | None = None,
        session_id: str | None = None,
        *,
        cache_salt: str | list[str] | None = None,
    ) -> Result | list[Result] | Generator[Result, None, None]:
        """Generate and wait: the objects of ``/generate``; with ``stream`` a generator of them.

        One prompt gives one object, a list of prompts or ``n > 1`` a list. Leaving a stream early aborts it.
        """
        request = _request(locals())
        if stream:
            return self.loop.iterate(self._stream(request))
        return self.loop.run_until_complete(self._generate(request))

    async def async_generate(
        self,
        prompt: str | list[str] | None = None,
        sampling_params: dict[str, Any] | list[dict[str, Any]] | None = None,
        input_ids: list[int] | list[list[int]] | None = None,
        image_data: Any = None,
        audio_data: Any = None,
        video_data: Any = None,
        mm_hashes: Any = None,
        mm_content_hashes: Any = None,
        return_logprob: bool | list[bool] = False,
        logprob_start_len: int | list[int] | None = None,
        top_logprobs_num: int | list[int] | None = None,
        token_ids_logprob: list[int] | list[list[int]] | None = None,
        lora_path: str | list[str | None] | None = None,
        custom_logit_processor: str | list[str | None] | None = None,
        require_reasoning: bool = False,
        return_hidden_states: bool | str = False,
        return_routed_experts: bool = False,
        routed_experts_start_len: int = 0,
        stream: bool = False,
        bootstrap_host: Any = None,
        bootstrap_port: Any = None,
        bootstrap_room: Any = None,
        routed_dp_rank: int | None = None,
        disagg_prefill_dp_rank: int | None = None,
        kv_hints: Any = None,
        data_parallel_rank: int | None = None,
        external_trace_header: dict[str, str] | None = None,
        rid: str | list[str] | None = None,
        session_params: dict[str, Any] | None = None,
        priority: int | None = None,
        session_id: str | None = None,
        *,
        cache_salt: str | list[str] | None = None,
    ) -> Result | list[Result] | AsyncGenerator[Result, None]:
        """:meth:`generate` for ``async`` code; with ``stream`` the awaited value is an asynchronous generator."""
        request = _request(locals())
        if stream:
            return self.loop.iterate_from_outside(self._stream(request))
        return await self.loop.run_from_outside(self._generate(request))

    async def _generate(self, request: GenerateReqInput) -> Result | list[Result]:
        group = await self.tokenizer_manager.submit(request)
        await group.wait()
        for stream in group.streams:
            stream.raise_for_abort()
        results = [stream.result() for stream in group.streams]
        return results if group.is_batch else results[0]

    async def _stream(self, request: GenerateReqInput) -> AsyncGenerator[Result, None]:
        incremental = self.server_args.incremental_streaming_output
        group = await self.tokenizer_manager.submit(request)
        events = group.events()
        try:
            async for stream, _ in events:
                result = stream.result(incremental)
                if group.is_batch:
                    result["index"] = stream.index
                yield result
        finally:
            await events.aclose()

    # -------------------------------------------------------------- control

    def abort_request(self, rid: str = "", abort_all: bool = False) -> None:
        """Abort the request with exactly this id (or the batch it stands for), or all."""
        self.loop.run_until_complete(self.tokenizer_manager.abort(rid, abort_all))

    def flush_cache(self) -> FlushCacheReqOutput:
        """Empty the prefix cache; the answer has ``success`` and ``message``. Works only while nothing runs."""
        return self.loop.run_until_complete(self.tokenizer_manager.flush_cache())

    def get_server_info(self) -> dict[str, Any]:
        return self.loop.run_until_complete(self.tokenizer_manager.server_info())

    def get_model_info(self) -> dict[str, Any]:
        return self.tokenizer_manager.model_info()

    def get_all_child_pids(self) -> list[int]:
        return self._system.child_pids()


# Arguments of ``generate`` that belong to features this version does not have.
_UNSUPPORTED = (
    "mm_hashes",
    "mm_content_hashes",
    "return_routed_experts",
    "routed_experts_start_len",
    "bootstrap_host",
    "bootstrap_port",
    "bootstrap_room",
    "disagg_prefill_dp_rank",
)
# Hints without an effect on the answer.
_IGNORED = ("kv_hints", "external_trace_header")


def _request(arguments: dict[str, Any]) -> GenerateReqInput:
    """The request that a call of ``generate`` with these local variables means."""
    fields = {name: value for name, value in arguments.items() if name != "self" and name not in _IGNORED}
    for name in _UNSUPPORTED:
        if fields.pop(name):
            raise InvalidRequest(f"{name}: is not supported yet; leave it out", name)
    return GenerateReqInput(text=fields.pop("prompt"), **fields)


def _end(system: System, loop: BackgroundLoop) -> None:
    if loop.is_own_thread():  # the garbage collector may drop an engine anywhere
        threading.Thread(target=_end, args=(system, loop)).start()
        return
    system.stop_processes()
    loop.run_until_complete(_close(system.tokenizer_manager))
    loop.stop_thread()


async def _close(manager: TokenizerManager) -> None:
    manager.close()
