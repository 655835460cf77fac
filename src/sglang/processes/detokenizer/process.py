"""Entry point of the detokenizer process."""

from __future__ import annotations

import os

from sglang.config.env import read_env
from sglang.config.model_files import tokenizer_path
from sglang.config.ports import PortArgs
from sglang.config.server_args import ServerArgs
from sglang.ipc.messages import BatchTokenIDOutput, ProcessReady
from sglang.ipc.sockets import PullSocket, PushSocket
from sglang.ipc.startup import ReadySender
from sglang.processes.detokenizer.manager import DetokenizerManager
from sglang.system.process import keep_what_is_loaded, set_process_title
from sglang.text.tokenizer import load_tokenizer


def run_detokenizer_process(server_args: ServerArgs, port_args: PortArgs, ready: ReadySender) -> None:
    """Convert outputs until the parent ends us. Exceptions end the process; the supervisor then ends the system."""
    set_process_title("sglang::detokenizer")
    tokenizer = load_tokenizer(tokenizer_path(server_args), decode_only=True)
    manager = DetokenizerManager(tokenizer, read_env().detokenizer_max_states)
    inbox = PullSocket(port_args.detokenizer_ipc_name)
    to_tokenizer = PushSocket(port_args.tokenizer_ipc_name)
    keep_what_is_loaded()
    ready.send(ProcessReady(role="detokenizer", pid=os.getpid()))
    while True:
        message = inbox.recv()
        if isinstance(message, BatchTokenIDOutput):
            to_tokenizer.send(manager.convert(message))
