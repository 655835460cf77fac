"""Runs ``launch_server`` over a fake system, for tests that watch a whole server process.

    python serve_fake.py PORT [flag=value ...]

Texts steer the fake model: a prompt "slow" gets one token every 50 ms, "die" kills the system, "stuck" never ends.
"""

from __future__ import annotations

import asyncio
import sys
import time
import types
from typing import Any

from sglang.config.server_args import ServerArgs
from sglang.ipc.inputs import GenerateReqInput
from sglang.processes.tokenizer.streams import Chunk, RequestGroup
from unit.api.fake_manager import FakeTokenizerManager, Script


class SteeredManager(FakeTokenizerManager):
    system: FakeSystem

    async def submit(self, obj: GenerateReqInput) -> RequestGroup:
        self.script = Script(hang=obj.text in ("slow", "stuck", "die"))
        group = await super().submit(obj)
        if obj.text == "slow":
            self._tasks.add(asyncio.ensure_future(self._slowly(group)))
        if obj.text == "die":
            self.system.failure = "the scheduler process was ended by SIGKILL"
            gone = {"type": "abort", "message": self.system.failure, "status_code": 500}
            group.deliver(group.streams[0], Chunk(finish_reason=gone))
        return group

    async def _slowly(self, group: RequestGroup) -> None:
        for position in range(20):
            await asyncio.sleep(0.05)
            end = {"type": "length", "length": 20} if position == 19 else None
            group.deliver(group.streams[0], Chunk("x", [1], None, end))

    async def loads(self) -> list[dict[str, Any]]:
        return [{"dp_rank": 0, "num_running_reqs": sum(obj.text in ("slow", "stuck") for obj in self.submitted)}]

    async def abort(self, rid: str = "", abort_all: bool = False) -> None:
        if abort_all:
            self.finish_aborted()


class FakeSystem:
    def __init__(self, args: ServerArgs) -> None:
        self.server_args = args
        self.failure: str | None = None
        manager = SteeredManager(args)
        manager.system = self
        self.tokenizer_manager: Any = manager

    def shutdown(self) -> None:
        print("system shut down", flush=True)


class FakeLaunch:
    def __init__(self, args: ServerArgs) -> None:
        self._args = args
        print("launching", flush=True)

    def __enter__(self) -> FakeLaunch:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def finish(self) -> FakeSystem:
        time.sleep(float(self._args.model_path))  # the "model" is the time it takes to load
        if self._args.served_model_name == "missing":
            raise RuntimeError("the scheduler process could not start: no such model")
        return FakeSystem(self._args)


def main() -> int:
    # In the engine's place, so that this process starts fast and needs no model code.
    launcher: Any = types.ModuleType("sglang.engine.launcher")
    launcher.System, launcher.Launch = FakeSystem, FakeLaunch
    sys.modules[launcher.__name__] = launcher
    from sglang.api.server import launch_server

    flags = dict(item.split("=", 1) for item in sys.argv[2:])
    args = ServerArgs(**{"model_path": "0", "served_model_name": "fake", "port": int(sys.argv[1]), **flags})
    return launch_server(args)


if __name__ == "__main__":
    sys.exit(main())
