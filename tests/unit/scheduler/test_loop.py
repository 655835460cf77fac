"""The loop between sockets and core: it sleeps when idle, answers questions, and survives what it can."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from sglang.executor.batch import ForwardBatch, StepResult
from sglang.ipc import messages as m
from sglang.processes.scheduler.loop import SchedulerLoop
from unit.scheduler.fakes import ArithmeticExecutor, make_core, make_request


class Wire:
    """Inbox and both outlets in memory. Blocking on an empty inbox moves the clock on, or raises at the end."""

    def __init__(self) -> None:
        self.now = 0.0
        self.incoming: deque[m.Message] = deque()
        self.waits: list[float | None] = []

    def recv(self, timeout: float | None = None) -> m.Message | None:
        if self.incoming:
            return self.incoming.popleft()
        self.waits.append(timeout)
        if timeout is None:
            raise TimeoutError("asleep for ever")
        self.now += timeout
        return None

    def drain(self) -> list[m.Message]:
        arrived, self.incoming = list(self.incoming), deque()
        return arrived


class Sink:
    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send(self, message: m.Message) -> None:
        self.sent.append(message)


class Picky(ArithmeticExecutor):
    """Fails as long as a row with a poisonous token is in the batch."""

    def __init__(self, poison: int, error: Exception) -> None:
        super().__init__(256)
        self.poison, self.error = poison, error

    def run(self, batch: ForwardBatch) -> StepResult:
        if self.poison in batch.input_ids:
            raise self.error
        return super().run(batch)


class World:
    def __init__(self, executor: ArithmeticExecutor | None = None, **settings: Any) -> None:
        self.wire, self.text, self.front = Wire(), Sink(), Sink()
        self.core = make_core(clock=lambda: self.wire.now, **settings)
        self.loop = SchedulerLoop(
            self.core,
            executor or ArithmeticExecutor(256),
            self.wire,
            self.text,
            self.front,
            state=lambda load: ({"mine": 1}, {**load, "dp_rank": 0}),
            clock=lambda: self.wire.now,
        )

    def put(self, *messages: m.Message) -> None:
        self.wire.incoming.extend(messages)

    def run(self) -> None:
        """Until nothing will ever happen again."""
        with pytest.raises(TimeoutError, match="asleep"):
            self.loop.run()

    def ends(self) -> dict[str, Any]:
        return {
            rid: reason
            for message in self.text.sent
            for rid, reason in zip(message.rids, message.finished_reasons, strict=True)
            if reason is not None
        }


def test_it_sleeps_when_idle_and_never_waits_while_busy() -> None:
    world = World()
    world.put(make_request("r", 5, max_new_tokens=10, stream=True))
    world.run()
    assert world.wire.waits == [None]
    assert len(world.text.sent) == 10
    assert world.ends() == {"r": {"type": "length", "length": 10}}


def test_all_outputs_of_a_step_are_one_message() -> None:
    world = World()
    world.put(*(make_request(f"r{n}", [n] * 5, max_new_tokens=3, stream=True) for n in range(4)))
    world.run()
    assert [len(message.rids) for message in world.text.sent] == [4, 4, 4]


def test_refusals_and_health_answers_go_to_the_front_process() -> None:
    world = World(context_length=64)
    world.put(make_request("long", 70), make_request("r", 5), make_request("HEALTH", 1, is_health_check=True))
    world.run()
    assert [type(message) for message in world.front.sent] == [m.AbortReq, m.HealthCheckOutput]
    assert world.front.sent[0].finished_reason["status_code"] == 400


def test_a_paused_scheduler_sleeps_too() -> None:
    world = World()
    world.put(m.PauseGenerationReqInput(call_id=3, mode="in_place"), make_request("r", 5))
    world.run()
    assert world.wire.waits == [None]
    assert world.text.sent == []
    assert world.front.sent == [m.PauseGenerationReqOutput(call_id=3)]
    world.put(m.ContinueGenerationReqInput(call_id=4))
    world.run()
    assert world.front.sent[1:] == [m.ContinueGenerationReqOutput(call_id=4)]
    assert list(world.ends()) == ["r"]


def test_timeouts_wake_a_paused_scheduler() -> None:
    world = World(waiting_timeout=5.0)
    world.put(m.PauseGenerationReqInput(mode="in_place"), make_request("r", 5))
    world.run()
    assert world.wire.waits == [pytest.approx(5.001), None]
    assert world.front.sent[-1].finished_reason["status_code"] == 503


def test_state() -> None:
    world = World()
    world.put(m.GetInternalStateReq(call_id=9))
    world.run()
    answer = world.front.sent[0]
    assert (answer.call_id, answer.internal_state) == (9, {"mine": 1})
    assert (answer.load["dp_rank"], answer.load["num_running_reqs"]) == (0, 0)


def flushes(world: World) -> dict[int, bool]:
    return {a.call_id: a.success for a in world.front.sent if isinstance(a, m.FlushCacheReqOutput)}


def test_flush_at_once() -> None:
    world = World()
    world.put(m.FlushCacheReqInput(call_id=1))
    world.run()
    assert flushes(world) == {1: True}
    world.put(make_request("r", 5), m.FlushCacheReqInput(call_id=2))
    world.run()
    assert flushes(world) == {1: True, 2: False}


def test_flush_waits_for_idle_one_at_a_time() -> None:
    world = World()
    world.put(
        make_request("r", 5, max_new_tokens=10),
        m.FlushCacheReqInput(call_id=1, timeout=60.0),
        m.FlushCacheReqInput(call_id=2, timeout=60.0),
    )
    world.run()
    assert flushes(world) == {2: False, 1: True}
    assert "another flush" in world.front.sent[0].message
    assert world.core.memory.cache.evictable_size == 0


def test_flush_gives_up_after_its_timeout() -> None:
    world = World()
    world.put(make_request("r", 5))
    world.loop.turn()
    world.put(m.PauseGenerationReqInput(mode="in_place"), m.FlushCacheReqInput(call_id=1, timeout=2.0))
    world.run()
    assert flushes(world) == {1: False}
    assert world.wire.now == pytest.approx(2.001)


# ------------------------------------------------------------------ errors


def test_one_requests_bad_data_ends_only_that_request(caplog: pytest.LogCaptureFixture) -> None:
    world = World(Picky(66, IndexError("token 66 is not in the vocabulary")))
    calm = World()
    good = [
        make_request("a", [1] * 5, return_logprob=True, logprob_start_len=0),
        make_request("b", [2] * 6, top_logprobs_num=2),
    ]
    world.put(good[0], make_request("bad", [3, 66]), good[1])
    calm.put(*good)
    world.run()
    calm.run()
    assert world.ends()["bad"]["status_code"] == 500
    message = world.ends()["bad"]["message"]
    assert "IndexError" in message and "66" not in message, "an error's own words may hold other people's data"
    assert "one by one" in caplog.text and "token 66" in caplog.text
    for outputs in (0, 1):  # both good ones got the tokens and logprobs they would have got without the bad one
        rid = "ab"[outputs]
        got = [
            (o.output_ids[o.rids.index(rid)], o.logprobs and o.logprobs[o.rids.index(rid)])
            for o in world.text.sent
            if rid in o.rids
        ]
        assert got == [
            (o.output_ids[o.rids.index(rid)], o.logprobs and o.logprobs[o.rids.index(rid)])
            for o in calm.text.sent
            if rid in o.rids
        ]
    world.core.check_invariants()
    assert world.core.memory.available == 256


def test_bad_data_of_a_lonely_request_ends_it_too() -> None:
    world = World(Picky(66, ValueError("bad")))
    world.put(make_request("bad", [3, 66]))
    world.run()
    assert world.ends()["bad"]["status_code"] == 500
    world.put(make_request("good", [3, 4]))
    world.run()
    assert world.ends()["good"] == {"type": "length", "length": 8}


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("device lost"), OSError("disk")])
def test_errors_that_are_nobodys_data_end_the_loop(error: Exception) -> None:
    world = World(Picky(66, error))
    world.put(make_request("bad", [3, 66]), make_request("good", [3, 4]))
    with pytest.raises(type(error)):
        world.loop.run()


def test_an_executor_that_fails_for_everybody_ends_the_loop() -> None:
    world = World(Picky(66, ValueError("always")))
    world.put(make_request("a", [1, 66]), make_request("b", [2, 66]))
    with pytest.raises(ValueError, match="always"):
        world.loop.run()


def test_a_request_that_cannot_be_queued_is_answered() -> None:
    world = World()
    broken = make_request("r", 5)
    broken.input_ids = ["x"]  # type: ignore[list-item]
    world.put(broken, make_request("good", 5))
    world.run()
    reason = world.front.sent[0].finished_reason
    assert (reason["status_code"], reason["message"].partition(" (")[0]) == (500, "Internal server error")
    assert list(world.ends()) == ["good"]
