"""Questions find their answers; pauses, health and the end reach everybody."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sglang.ipc import messages as m
from sglang.ipc.errors import InvalidRequest, RequestAborted
from unit.tokenizer.fake_scheduler import (
    ABORTED,
    STOP,
    WAIT,
    ByteTokenizer,
    FakeSystem,
    finished,
    submit,
)

# ------------------------------------------------------------------ questions


async def answer(
    system: FakeSystem, kind: type[m.ControlReq], reply: type[m.ControlReq], **fields: Any
) -> m.ControlReq:
    question = await system.next(kind)
    system.outbox.send(reply(call_id=question.call_id, **fields))
    return question


async def test_answers_find_their_questions(system: FakeSystem) -> None:
    first = asyncio.create_task(system.manager.flush_cache(1.5))
    second = asyncio.create_task(system.manager.flush_cache())
    questions = [await system.next(m.FlushCacheReqInput) for _ in range(2)]
    assert sorted(question.timeout for question in questions) == [0.0, 1.5]
    for question in reversed(questions):
        reply = m.FlushCacheReqOutput(
            call_id=question.call_id, success=question.timeout > 0, message=str(question.timeout)
        )
        system.outbox.send(reply)
    assert (await first).message == "1.5"
    assert (await second).success is False


async def test_states_and_loads_come_as_lists(system: FakeSystem) -> None:
    asked = asyncio.create_task(system.manager.internal_states())
    await answer(system, m.GetInternalStateReq, m.GetInternalStateReqOutput, internal_state={"a": 1}, load={})
    assert await asked == [{"a": 1}]
    asked = asyncio.create_task(system.manager.loads())
    await answer(system, m.GetInternalStateReq, m.GetInternalStateReqOutput, internal_state={}, load={"num": 2})
    assert await asked == [{"num": 2}]


async def test_server_info_hides_secrets() -> None:
    fake = FakeSystem(ByteTokenizer(), api_key="sesame-1", admin_api_key="sesame-2")
    asked = asyncio.create_task(fake.manager.server_info())
    state = {"api_key": "sesame-1", "last_gen_throughput": 0.0}
    await answer(fake, m.GetInternalStateReq, m.GetInternalStateReqOutput, internal_state=state, load={})
    info = await asked
    assert "sesame" not in repr(info)
    assert info["max_total_num_tokens"] == 1000
    assert (info["status"], info["frontend"], info["kv_events"]) == ("ready", "python", None)
    assert info["internal_states"][0]["last_gen_throughput"] == 0.0
    assert info["model_path"] == "model"
    fake.close()


def test_model_info_has_the_known_keys() -> None:
    fake = FakeSystem(ByteTokenizer())
    info = fake.manager.model_info()
    assert (info["model_path"], info["served_model_name"], info["is_generation"]) == ("model", "served", True)
    assert (info["model_type"], info["architectures"]) == ("llama", ["LlamaForCausalLM"])
    assert (info["disaggregation_mode"], info["weight_version"]) == ("null", "default")
    fake.close()


async def test_pause_holds_new_requests_until_continue(system: FakeSystem) -> None:
    running = await submit(system, text="a", rid="old")
    await system.next(m.TokenizedGenerateReqInput)
    pausing = asyncio.create_task(system.manager.pause())
    assert (await system.next(m.AbortReq)).rid == "old"
    held = asyncio.create_task(submit(system, text="b", rid="new"))
    dropped = asyncio.create_task(submit(system, text="b", rid="gone"))
    system.say("old", "", [1], ABORTED)
    await answer(system, m.PauseGenerationReqInput, m.PauseGenerationReqOutput)
    assert (await pausing).success
    assert running.is_finished
    assert system.manager.status == "paused"
    await system.manager.abort("gone")
    await system.nothing_sent()
    assert not held.done()
    going = asyncio.create_task(system.manager.continue_generation())
    await answer(system, m.ContinueGenerationReqInput, m.ContinueGenerationReqOutput)
    await going
    assert (await system.next(m.TokenizedGenerateReqInput)).rid == "new"
    await held
    (result,) = await finished(await dropped)
    assert result["meta_info"]["finish_reason"]["message"] == "Abort in waiting queue"
    assert system.manager.status == "up"


async def test_other_pause_modes_abort_nothing(system: FakeSystem) -> None:
    await submit(system, text="a", rid="old")
    await system.next(m.TokenizedGenerateReqInput)
    pausing = asyncio.create_task(system.manager.pause("in_place"))
    question = await answer(system, m.PauseGenerationReqInput, m.PauseGenerationReqOutput)
    assert isinstance(question, m.PauseGenerationReqInput)
    assert question.mode == "in_place"
    await pausing
    with pytest.raises(InvalidRequest, match="mode"):
        await system.manager.pause("for ever")


async def test_a_held_request_whose_caller_leaves_is_forgotten(system: FakeSystem) -> None:
    pausing = asyncio.create_task(system.manager.pause("in_place"))
    await answer(system, m.PauseGenerationReqInput, m.PauseGenerationReqOutput)
    await pausing
    held = asyncio.create_task(submit(system, text="b"))
    while system.manager.live_requests == 0:
        await asyncio.sleep(0)
    held.cancel()
    await asyncio.gather(held, return_exceptions=True)
    assert system.manager.live_requests == 0
    await system.nothing_sent()


async def test_health_is_any_sign_of_life(system: FakeSystem) -> None:
    asked = asyncio.create_task(system.manager.health_generate(WAIT))
    probe = await system.next(m.TokenizedGenerateReqInput)
    assert probe.is_health_check
    assert (probe.input_ids, probe.sampling_params.max_new_tokens) == ([0], 1)
    assert not asked.done()
    system.outbox.send(m.HealthCheckOutput(rid=probe.rid))
    assert await asked is True


async def test_silence_is_bad_health_and_the_probe_is_taken_back(system: FakeSystem) -> None:
    assert await system.manager.health_generate(0.05) is False
    probe = await system.next(m.TokenizedGenerateReqInput)
    assert (await system.next(m.AbortReq)).rid == probe.rid


# ------------------------------------------------------------------ the end


async def test_a_dead_child_ends_everything_at_once(system: FakeSystem) -> None:
    group = await submit(system, text="a", rid="r")
    flush = asyncio.create_task(system.manager.flush_cache())
    await asyncio.sleep(0)
    await asyncio.to_thread(system.manager.fail_from_thread, "the scheduler process was ended by SIGKILL")
    await finished(group)
    with pytest.raises(RequestAborted, match="SIGKILL"):
        group.streams[0].raise_for_abort()
    with pytest.raises(RequestAborted, match="SIGKILL"):
        await flush
    with pytest.raises(RequestAborted, match="SIGKILL") as refused:
        await submit(system, text="a")
    assert refused.value.status_code == 503
    assert await system.manager.health_generate(WAIT) is False
    assert system.manager.status == "failed"


async def test_drain_waits_for_what_was_sent(system: FakeSystem) -> None:
    assert await system.manager.drain(0.01)
    await submit(system, text="a", rid="r")
    assert not await system.manager.drain(0.01)
    system.say("r", "", [1], STOP)
    assert await system.manager.drain(WAIT)


async def test_another_event_loop_is_refused(system: FakeSystem) -> None:
    await submit(system, text="a")
    with pytest.raises(RuntimeError, match="event loop"):
        await asyncio.to_thread(asyncio.run, submit(system, text="b"))


async def test_a_bad_batch_does_not_stop_the_reader(system: FakeSystem, caplog: pytest.LogCaptureFixture) -> None:
    group = await submit(system, text="a", rid="r")
    system.outbox.send(
        m.BatchStrOutput(
            rids=["r"],
            finished_reasons=[],
            output_strs=[],
            output_ids=[],
            prompt_tokens=[],
            completion_tokens=[],
            cached_tokens=[],
            retraction_counts=[],
        )
    )
    system.say("r", "ok", [1], STOP)
    assert (await finished(group))[0]["text"] == "ok"
    assert "could not handle a BatchStrOutput" in caplog.text
