"""A scheduler for tests: it sits at the other end of the manager's sockets, in the same event loop."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from sglang.config.model_config import ModelConfig
from sglang.config.ports import PortArgs
from sglang.config.server_args import ServerArgs
from sglang.ipc.async_socket import AsyncPullSocket
from sglang.ipc.inputs import GenerateReqInput
from sglang.ipc.messages import AbortReq, BatchStrOutput, LogprobDelta, Message
from sglang.ipc.sockets import PushSocket
from sglang.processes.tokenizer.manager import TokenizerManager
from sglang.processes.tokenizer.streams import RequestGroup

Kind = TypeVar("Kind", bound=Message)

WAIT = 10.0
"""Seconds; only a failing test ever waits that long."""

VOCAB = 300
CONTEXT = 64
END_ID = 256
STOP = {"type": "stop", "matched": END_ID}
ABORTED = {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}


class ByteTokenizer:
    """One token a byte; id 256 is the special token ``<end>``."""

    vocab_size = VOCAB

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return list(text.encode())

    def encode_batch(self, texts: list[str], add_special_tokens: bool = True) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def token_text(self, token: int) -> str:
        return "<end>" if token == END_ID else chr(token)

    def special_token_id(self, text: str) -> int | None:
        return END_ID if text == "<end>" else None


def model_config() -> ModelConfig:
    return ModelConfig(
        path="model",
        format="hf",
        architecture="LlamaForCausalLM",
        hf={"model_type": "llama"},
        vocab_size=VOCAB,
        hidden_size=8,
        num_layers=1,
        num_heads=1,
        num_kv_heads=1,
        head_dim=8,
        context_length=CONTEXT,
        eos_token_ids=(END_ID,),
    )


class FakeSystem:
    """A manager with hand-driven back ends."""

    def __init__(self, tokenizer: ByteTokenizer | None = None, **settings: Any) -> None:
        args = ServerArgs(model_path="model", served_model_name="served", random_seed=1, **settings)
        self.ports = PortArgs.init_new(args)
        self.inbox = AsyncPullSocket(self.ports.scheduler_input_ipc_name)
        self.arrived: asyncio.Queue[Message] | None = None
        self.manager = TokenizerManager(
            args,
            self.ports,
            model_config(),
            tokenizer,  # type: ignore[arg-type]
            None,
            {"max_total_num_tokens": 1000},
        )
        self.outbox = PushSocket(self.ports.tokenizer_ipc_name)

    async def next(self, kind: type[Kind]) -> Kind:
        """The next message that the scheduler would see; it must be of this kind."""
        if self.arrived is None:
            self.arrived = asyncio.Queue()
            self.inbox.listen(self.arrived.put_nowait)
        message = await asyncio.wait_for(self.arrived.get(), WAIT)
        assert isinstance(message, kind), message
        return message

    async def nothing_sent(self) -> None:
        """Nothing but what was taken already has reached the scheduler."""
        mark = PushSocket(self.ports.scheduler_input_ipc_name)
        mark.send(AbortReq(rid="mark"))
        assert (await self.next(AbortReq)).rid == "mark"
        mark.close()

    def say(
        self,
        rid: str,
        text: str,
        ids: list[int],
        finish: dict[str, Any] | None = None,
        logprobs: LogprobDelta | None = None,
        completion: int | None = None,
        cached: int = 0,
    ) -> None:
        """One output of one request."""
        self.outbox.send(
            BatchStrOutput(
                rids=[rid],
                finished_reasons=[finish],
                output_strs=[text],
                output_ids=[ids],
                prompt_tokens=[3],
                completion_tokens=[len(ids) if completion is None else completion],
                cached_tokens=[cached],
                retraction_counts=[0],
                logprobs=None if logprobs is None else [logprobs],
            )
        )

    def close(self) -> None:
        self.manager.close()
        self.inbox.close()
        self.outbox.close()
        self.ports.cleanup()


async def submit(system: FakeSystem, **fields: Any) -> RequestGroup:
    return await system.manager.submit(GenerateReqInput(**fields))


async def finished(group: RequestGroup) -> list[dict[str, Any]]:
    await asyncio.wait_for(group.wait(), WAIT)
    return [stream.result() for stream in group.streams]
