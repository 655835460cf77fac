"""Entry point of the scheduler process: the model, the core and the sockets, put together."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from sglang.config import model_files
from sglang.config.env import read_env
from sglang.config.model_config import ModelConfig
from sglang.config.ports import PortArgs
from sglang.config.server_args import ServerArgs
from sglang.executor.batch import Executor
from sglang.executor.create import create_executor
from sglang.grammar.compiler import GrammarCompiler, make_compiler
from sglang.grammar.spec import GrammarOptions
from sglang.ipc.messages import ProcessReady
from sglang.ipc.sockets import PullSocket, PushSocket
from sglang.ipc.startup import ReadySender
from sglang.processes.scheduler.config import SchedulerConfig, scheduler_config
from sglang.processes.scheduler.core import SchedulerCore
from sglang.processes.scheduler.loop import SchedulerLoop
from sglang.processes.scheduler.watch import stop_watch_factory
from sglang.system.process import keep_what_is_loaded, set_process_title

GIB = 1 << 30


def run_scheduler_process(server_args: ServerArgs, port_args: PortArgs, ready: ReadySender) -> None:
    """Schedule until the parent ends us. Exceptions end the process; the supervisor then ends the system.

    The caller has bound this process's life to its parent and blocks its signals: the parent decides what Ctrl-C means.
    """
    begin = time.perf_counter()
    set_process_title("sglang::scheduler")
    watches = None if server_args.skip_tokenizer_init else stop_watch_factory(model_files.tokenizer_path(server_args))
    model_config = model_files.model_config(server_args)
    inbox = PullSocket(port_args.scheduler_input_ipc_name)
    to_tokenizer = PushSocket(port_args.tokenizer_ipc_name)
    to_detokenizer = to_tokenizer if server_args.skip_tokenizer_init else PushSocket(port_args.detokenizer_ipc_name)
    executor = create_executor(server_args, model_config)
    config = scheduler_config(server_args, read_env(), model_config, executor.num_slots)
    info = _info(config, executor, time.perf_counter() - begin)
    state = StateReport(server_args, config, executor, info)
    core = SchedulerCore(config, watches, grammars=_grammars(server_args, model_config))
    keep_what_is_loaded()
    ready.send(ProcessReady(role="scheduler", pid=os.getpid(), info=info))
    SchedulerLoop(core, executor, inbox, to_detokenizer, to_tokenizer, state).run()


def _grammars(server_args: ServerArgs, model_config: ModelConfig) -> GrammarCompiler | None:
    """What compiles grammars; nothing is loaded before there is one."""
    if server_args.grammar_backend == "none" or server_args.skip_tokenizer_init:
        return None
    options = GrammarOptions(
        any_whitespace=not server_args.constrained_json_disable_any_whitespace,
        max_whitespace=server_args.constrained_json_max_whitespace_cnt or GrammarOptions().max_whitespace,
        whitespace_pattern=server_args.constrained_json_whitespace_pattern,
    )
    return make_compiler(
        server_args.grammar_backend,
        options,
        model_files.tokenizer_path(server_args),
        model_config.vocab_size,
        list(model_config.eos_token_ids),
    )


class StateReport:
    """Answers "how are you": internal state and load record of this scheduler."""

    def __init__(
        self, server_args: ServerArgs, config: SchedulerConfig, executor: Executor, info: dict[str, Any]
    ) -> None:
        report = executor.report
        weights = _checkpoint_bytes(model_files.model_path(server_args))
        kv_cache = report.kv_cache_bytes
        self._memory = {
            "weight_gb": round(weights / GIB, 3),
            "kv_cache_gb": round(kv_cache / GIB, 3),
            "graph_gb": 0.0,
            "token_capacity": config.capacity,
        }
        self._state = {
            **server_args.public_dict(),
            "world_size": 1,
            "startup_time": info["startup_time"],
            "effective_max_running_requests_per_dp": config.max_running_requests,
            "memory_usage": {
                "weight": self._memory["weight_gb"],
                "kvcache": self._memory["kv_cache_gb"],
                "token_capacity": config.capacity,
                "graph": {},
            },
            "disaggregation_mode": "null",
        }

    def __call__(self, load: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        state = {**self._state, "last_gen_throughput": load["gen_throughput"]}
        return state, {"timestamp": time.time(), "dp_rank": 0, **load, "memory": self._memory}


def _info(config: SchedulerConfig, executor: Executor, seconds: float) -> dict[str, Any]:
    return {
        "max_total_num_tokens": config.capacity,
        "max_req_input_len": config.max_req_input_len,
        "max_running_requests": config.max_running_requests,
        "context_length": config.context_length,
        "startup_time": {"load_weight": executor.report.load_seconds, "scheduler_e2e": seconds},
    }


def _checkpoint_bytes(path: Path) -> int:
    """Size of the weights as stored; a close guess of the memory they take unless they are unpacked."""
    files = [path] if path.is_file() else list(path.glob("*.safetensors"))
    return sum(file.stat().st_size for file in files)
