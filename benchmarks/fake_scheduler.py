"""A scheduler process whose model is a fixed amount of arithmetic: what is left to measure is everything else.

The steps keep as many threads busy as asked, with the GIL released, as native kernels do; so whatever the other
processes compute in the meantime is paid for by the step.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import threading
import time

from sglang.config import model_files
from sglang.config.env import read_env
from sglang.config.ports import PortArgs
from sglang.config.server_args import ServerArgs
from sglang.executor.batch import ForwardBatch, StepResult
from sglang.ipc.messages import ProcessReady
from sglang.ipc.sockets import PullSocket, PushSocket
from sglang.ipc.startup import ReadySender
from sglang.processes.scheduler.config import scheduler_config
from sglang.processes.scheduler.core import SchedulerCore
from sglang.processes.scheduler.loop import SchedulerLoop
from sglang.processes.scheduler.watch import stop_watch_factory

ENTRY = "fake_scheduler:run_fake_scheduler_process"
COST_VARIABLE = "BENCH_STEP_COST"
"""Environment: "base,row,token,threads": milliseconds a step, a decode row, a prefill token; busy threads (0: the step
sleeps, which leaves the cores to those whose processor time is measured)."""
BLOCK_VARIABLE = "BENCH_BLOCK_MS"
"""Environment: milliseconds a block of arithmetic takes, as measured once for all runs that are compared."""
BLOCK = bytes(1 << 18)
WORDS = range(300, 4000)
"""Token ids that are plain words in the vocabularies at hand."""


class Burner:
    """Threads that work off blocks of arithmetic together, each taking the next one when it is done with its last."""

    def __init__(self, threads: int) -> None:
        self._work = [threading.Semaphore(0) for _ in range(threads)]
        self._done = threading.Semaphore(0)
        self._blocks = iter(())
        for index in range(threads):
            threading.Thread(target=self._run, args=(index,), daemon=True).start()

    def spend(self, blocks: int) -> None:
        """Work off that many blocks."""
        self._blocks = iter(range(blocks))
        for work in self._work:
            work.release()
        for _ in self._work:
            self._done.acquire()

    def _run(self, index: int) -> None:
        while True:
            self._work[index].acquire()
            for _ in self._blocks:
                hashlib.sha256(BLOCK)
            self._done.release()

    def calibrate(self) -> float:
        """Milliseconds a block takes when all threads work and nothing else does, the best of several tries."""
        count, times = 400, []
        for _ in range(10):
            begin = time.perf_counter()
            self.spend(count)
            times.append(time.perf_counter() - begin)
        return min(times) / count * 1e3


class TimedExecutor:
    """Implements :class:`sglang.executor.batch.Executor`: tokens without meaning, after a fixed amount of work."""

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        base, row, token, threads = os.environ.get(COST_VARIABLE, "20,0,0,2").split(",")
        self._base, self._row, self._token = float(base), float(row), float(token)
        self._burner = Burner(int(threads)) if int(threads) else None
        self._block_ms = float(os.environ[BLOCK_VARIABLE])
        self._words = itertools.cycle(WORDS)

    def run(self, batch: ForwardBatch) -> StepResult:
        rows = int((batch.query_lens == 1).sum())
        cost = self._base + self._row * rows + self._token * (len(batch.input_ids) - rows)
        if self._burner is None:
            time.sleep(cost / 1e3)
        else:
            self._burner.spend(round(cost / self._block_ms))
        return StepResult(tokens=list(itertools.islice(self._words, len(batch.sample))))


def run_fake_scheduler_process(server_args: ServerArgs, port_args: PortArgs, ready: ReadySender) -> None:
    """As :func:`sglang.processes.scheduler.process.run_scheduler_process`, without a model."""
    model_config = model_files.model_config(server_args)
    inbox = PullSocket(port_args.scheduler_input_ipc_name)
    to_tokenizer = PushSocket(port_args.tokenizer_ipc_name)
    to_detokenizer = PushSocket(port_args.detokenizer_ipc_name)
    executor = TimedExecutor(server_args.max_total_tokens or 65536)
    config = scheduler_config(server_args, read_env(), model_config, executor.num_slots)
    core = SchedulerCore(config, stop_watch_factory(model_files.tokenizer_path(server_args)))
    ready.send(ProcessReady(role="scheduler", pid=os.getpid(), info={"max_total_num_tokens": config.capacity}))
    SchedulerLoop(core, executor, inbox, to_detokenizer, to_tokenizer).run()
