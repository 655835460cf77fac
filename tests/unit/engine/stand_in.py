"""Stand-in scheduler processes: no model, they answer with the prompt's own tokens, over and over."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from typing import Any

from sglang.config.ports import PortArgs
from sglang.config.server_args import ServerArgs
from sglang.engine.engine import Engine
from sglang.ipc import messages as m
from sglang.ipc.sockets import PullSocket, PushSocket
from sglang.ipc.startup import ReadySender

ABORTED = {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}


class EchoEngine(Engine):
    run_scheduler_process_func = "unit.engine.stand_in:run_echo"


@dataclass
class Running:
    request: m.TokenizedGenerateReqInput
    count: int = 0
    finish: dict[str, Any] | None = None


@dataclass
class Echo:
    """One token of every running request a step; prompts that begin with a known rid do something else."""

    to_detokenizer: PushSocket
    to_tokenizer: PushSocket
    running: dict[str, Running] = field(default_factory=dict)

    def receive(self, message: m.Message) -> None:
        if isinstance(message, m.TokenizedGenerateReqInput):
            if message.rid == "crash":
                raise ValueError("asked to crash")
            self.running[message.rid] = Running(message)
        elif isinstance(message, m.AbortReq) and message.rid in self.running:
            self.running[message.rid].finish = ABORTED
        elif isinstance(message, m.FlushCacheReqInput):
            self.to_tokenizer.send(m.FlushCacheReqOutput(call_id=message.call_id, success=not self.running))
        elif isinstance(message, m.GetInternalStateReq):
            state = {"running": len(self.running)}
            self.to_tokenizer.send(
                m.GetInternalStateReqOutput(call_id=message.call_id, internal_state=state, load=state)
            )

    def step(self) -> None:
        batch = m.BatchTokenIDOutput(
            rids=[],
            finished_reasons=[],
            output_ids=[],
            prompt_tokens=[],
            completion_tokens=[],
            cached_tokens=[],
            retraction_counts=[],
        )
        for rid, one in list(self.running.items()):
            ids = one.request.input_ids
            limit = one.request.sampling_params.max_new_tokens or 0
            new = [ids[one.count % len(ids)]] if one.finish is None else []
            if one.count == 0:
                batch.opened.append(m.DecodeSpec(rid=rid))
            one.count += len(new)
            if one.finish is None and one.count >= limit:
                one.finish = {"type": "length", "length": limit}
            batch.rids.append(rid)
            batch.finished_reasons.append(one.finish)
            batch.output_ids.append(new)
            batch.prompt_tokens.append(len(ids))
            batch.completion_tokens.append(one.count)
            batch.cached_tokens.append(0)
            batch.retraction_counts.append(0)
            if one.finish is not None:
                del self.running[rid]
        self.to_detokenizer.send(batch)


def run_echo(server_args: ServerArgs, port_args: PortArgs, ready: ReadySender) -> None:
    inbox = PullSocket(port_args.scheduler_input_ipc_name)
    to_tokenizer = PushSocket(port_args.tokenizer_ipc_name)
    direct = server_args.skip_tokenizer_init
    echo = Echo(to_tokenizer if direct else PushSocket(port_args.detokenizer_ipc_name), to_tokenizer)
    ready.send(m.ProcessReady(role="scheduler", pid=os.getpid(), info={"max_total_num_tokens": 4096}))
    while True:
        message = inbox.recv(None if not echo.running else 0)
        if message is not None:
            echo.receive(message)
        elif echo.running:
            echo.step()
            time.sleep(0.001)  # leave the other processes of a small machine some air


def run_failing(server_args: ServerArgs, port_args: PortArgs, ready: ReadySender) -> None:
    raise ValueError("no such weights: layer 7")


def run_vanishing(server_args: ServerArgs, port_args: PortArgs, ready: ReadySender) -> None:
    os._exit(7)


def run_never_ready(server_args: ServerArgs, port_args: PortArgs, ready: ReadySender) -> None:
    print("loading", flush=True)
    while True:
        time.sleep(60)
