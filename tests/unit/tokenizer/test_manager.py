"""Requests go out whole or not at all; outputs come back to the right caller; the end reaches everybody."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sglang.ipc import messages as m
from sglang.ipc.errors import InvalidRequest, RequestAborted
from sglang.ipc.inputs import GenerateReqInput
from sglang.processes.tokenizer.streams import RequestGroup
from unit.tokenizer.fake_scheduler import CONTEXT, END_ID, WAIT, ByteTokenizer, FakeSystem

STOP = {"type": "stop", "matched": END_ID}
ABORTED = {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}


async def submit(system: FakeSystem, **fields: Any) -> RequestGroup:
    return await system.manager.submit(GenerateReqInput(**fields))


async def finished(group: RequestGroup) -> list[dict[str, Any]]:
    await asyncio.wait_for(group.wait(), WAIT)
    return [stream.result() for stream in group.streams]


# ------------------------------------------------------------------ out


async def test_a_request_reaches_the_scheduler_as_asked(system: FakeSystem) -> None:
    await submit(
        system,
        text="hi",
        rid="r",
        stream=True,
        return_logprob=True,
        logprob_start_len=1,
        top_logprobs_num=2,
        priority=-3,
        extra_key="k",
        cache_salt="s",
        sampling_params={"stop": ["<end>", "x"], "max_new_tokens": 4, "sampling_seed": -1},
    )
    sent = await system.next(m.TokenizedGenerateReqInput)
    assert (sent.rid, sent.input_ids, sent.stream) == ("r", [104, 105], True)
    assert (sent.return_logprob, sent.logprob_start_len, sent.top_logprobs_num) == (True, 1, 2)
    assert (sent.priority, sent.extra_key, sent.cache_salt) == (-3, "k", "s")
    assert sent.stop_special_ids == {END_ID: "<end>"}
    assert sent.sampling_params.max_new_tokens == 4
    assert sent.seed == 2**63 - 1
    assert sent.arrival_time > 0


async def test_samples_are_expanded_prompt_major_with_own_seeds(system: FakeSystem) -> None:
    group = await submit(system, text=["a", "b"], rid="r", sampling_params={"n": 2, "sampling_seed": 7})
    sent = [await system.next(m.TokenizedGenerateReqInput) for _ in range(4)]
    assert [(one.rid, one.input_ids, one.seed) for one in sent] == [
        ("r_0_0", [97], 7),
        ("r_0_1", [97], 8),
        ("r_1_0", [98], 7),
        ("r_1_1", [98], 8),
    ]
    assert [stream.rid for stream in group.streams] == [one.rid for one in sent]
    assert group.is_batch


async def test_seeds_are_drawn_apart_and_repeat_with_the_server_seed() -> None:
    draws = []
    for _ in range(2):
        fake = FakeSystem(ByteTokenizer())
        await submit(fake, text="a", sampling_params={"n": 3})
        draws.append([(await fake.next(m.TokenizedGenerateReqInput)).seed for _ in range(3)])
        fake.close()
    assert draws[0] == draws[1]
    assert len(set(draws[0])) == 3
    assert all(0 <= seed < 2**63 for seed in draws[0])


async def test_long_texts_are_tokenised_like_short_ones(system: FakeSystem) -> None:
    long = "x" * 5000  # more than fits, tokenised in a thread
    with pytest.raises(InvalidRequest, match=f"5000 tokens.*{CONTEXT} tokens"):
        await submit(system, text=[long, "a"])
    await system.nothing_sent()


@pytest.mark.parametrize(
    "fields",
    [
        {"text": ["fine", "x" * CONTEXT]},
        {"input_ids": [[1], [5000]]},
        {"text": ["fine", ""]},
        {"text": ["a", "b"], "sampling_params": [{}, {"temperature": -1}]},
        {"text": "a", "sampling_params": {"max_new_tokens": CONTEXT}},
        {"text": "a", "sampling_params": {"custom_params": {"x": "\ud800"}}},
    ],
)
async def test_one_bad_prompt_stops_the_whole_request(system: FakeSystem, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        await submit(system, **fields)
    await system.nothing_sent()
    assert system.manager.live_requests == 0


# ------------------------------------------------------------------ back


async def test_outputs_add_up_to_the_native_result(system: FakeSystem) -> None:
    group = await submit(system, text="abc", rid="r")
    system.say("r", "He", [72, 101], completion=2, cached=1)
    system.say("r", "y", [121, END_ID], STOP, completion=4, cached=1)
    (result,) = await finished(group)
    info = result.pop("meta_info")
    assert result == {"text": "Hey", "output_ids": [72, 101, 121, END_ID]}
    assert info.pop("e2e_latency") > 0
    assert info.pop("response_sent_to_client_ts") > 0
    assert info == {
        "id": "r",
        "finish_reason": STOP,
        "prompt_tokens": 3,
        "weight_version": "default",
        "num_retractions": 0,
        "reasoning_tokens": 0,
        "completion_tokens": 4,
        "cached_tokens": 1,
        "weight_versions": [{"version": "default", "start": 0, "end": 4}],
        "cached_tokens_details": {"device": 1, "host": 0},
        "dp_rank": None,
    }
    assert system.manager.live_requests == 0


async def test_a_stream_shows_each_step_and_times_only_at_its_ends(system: FakeSystem) -> None:
    group = await submit(system, text="abc", rid="r", stream=True)
    seen: list[dict[str, Any]] = []
    script = [("a", [1], None), ("b", [2], None), ("c", [3], STOP)]
    system.say("r", *script[0], completion=1)
    async for stream, chunk in group.events():
        seen.append(stream.result())
        assert chunk.text == script[len(seen) - 1][0]
        assert stream.result(incremental=True)["text"] == chunk.text
        assert stream.result(incremental=True)["output_ids"] == script[len(seen) - 1][1]
        if len(seen) < 3:
            system.say("r", *script[len(seen)], completion=len(seen) + 1)
    assert [one["text"] for one in seen] == ["a", "ab", "abc"]
    assert [one["output_ids"] for one in seen] == [[1], [1, 2], [1, 2, 3]]
    assert [one["meta_info"]["finish_reason"] for one in seen] == [None, None, STOP]
    assert [one["meta_info"]["completion_tokens"] for one in seen] == [1, 2, 3]
    assert ["response_sent_to_client_ts" in one["meta_info"] for one in seen] == [True, False, True]
    assert ["e2e_latency" in one["meta_info"] for one in seen] == [False, False, True]
    assert ["weight_versions" in one["meta_info"] for one in seen] == [False, False, True]
    assert seen[0]["meta_info"]["cached_tokens_details"] is None


async def test_what_a_slow_consumer_missed_is_merged(system: FakeSystem) -> None:
    group = await submit(system, text="abc", rid="r", return_logprob=True)
    for i, text in enumerate("abc"):
        delta = m.LogprobDelta(output_val=[-float(i)], output_idx=[i])
        system.say("r", text, [i], STOP if text == "c" else None, delta, completion=i + 1)
    while not group.is_finished:
        await asyncio.sleep(0)
    events = [(stream.rid, chunk) async for stream, chunk in group.events()]
    ((_, chunk),) = events
    assert (chunk.text, chunk.output_ids, chunk.finish_reason) == ("abc", [0, 1, 2], STOP)
    assert chunk.logprobs is not None
    assert chunk.logprobs.output_val == [0.0, -1.0, -2.0]
    assert group.streams[0].logprobs.output_idx == [0, 1, 2]


async def test_a_batch_interleaves_and_keeps_its_indices(system: FakeSystem) -> None:
    group = await submit(system, text=["a", "b"], rid=["x", "y"])
    system.say("y", "1", [1], STOP)
    system.say("x", "2", [2], STOP)
    order = [(stream.index, chunk.text) async for stream, chunk in group.events()]
    assert order == [(1, "1"), (0, "2")]
    assert [one["text"] for one in await finished(group)] == ["2", "1"]


async def test_without_a_tokenizer_results_have_no_text() -> None:
    fake = FakeSystem(None, skip_tokenizer_init=True)
    group = await submit(fake, input_ids=[1, 2], rid="r", return_prompt_token_ids=True)
    fake.outbox.send(
        m.BatchTokenIDOutput(
            rids=["r"],
            finished_reasons=[STOP],
            output_ids=[[5]],
            prompt_tokens=[2],
            completion_tokens=[1],
            cached_tokens=[0],
            retraction_counts=[3],
        )
    )
    (result,) = await finished(group)
    assert set(result) == {"output_ids", "meta_info", "prompt_token_ids"}
    assert (result["output_ids"], result["prompt_token_ids"]) == ([5], [1, 2])
    assert result["meta_info"]["num_retractions"] == 3
    fake.close()


async def test_logprobs_have_the_native_layout(system: FakeSystem) -> None:
    group = await submit(
        system,
        text="ab",
        rid="r",
        return_logprob=True,
        logprob_start_len=0,
        top_logprobs_num=1,
        token_ids_logprob=[98],
        return_text_in_logprobs=True,
    )
    first = m.LogprobDelta(
        input_val=[None, -1.0],
        input_idx=[97, 98],
        input_top_val=[None, [-0.5]],
        input_top_idx=[None, [99]],
        input_ids_val=[None, [-1.0]],
        input_ids_idx=[None, [98]],
        output_val=[-0.25],
        output_idx=[99],
        output_top_val=[[-0.25]],
        output_top_idx=[[99]],
        output_ids_val=[[-2.0]],
        output_ids_idx=[[98]],
    )
    last = m.LogprobDelta(
        output_val=[-0.125],
        output_idx=[END_ID],
        output_top_val=[[-0.125]],
        output_top_idx=[[END_ID]],
        output_ids_val=[[-3.0]],
        output_ids_idx=[[98]],
    )
    system.say("r", "c", [99], None, first, completion=1)
    events = group.events()
    await anext(events)
    system.say("r", "", [END_ID], STOP, last, completion=2)
    stream, _ = await anext(events)
    info = stream.result()["meta_info"]
    assert info["input_token_logprobs"] == [(None, 97, "a"), (-1.0, 98, "b")]
    assert info["output_token_logprobs"] == [(-0.25, 99, "c"), (-0.125, END_ID, "<end>")]
    assert info["output_token_logprobs_length"] == 2
    assert info["input_top_logprobs"] == [None, [(-0.5, 99, "c")]]
    assert info["output_top_logprobs"] == [[(-0.25, 99, "c")], [(-0.125, END_ID, "<end>")]]
    assert info["input_token_ids_logprobs"] == [None, [(-1.0, 98, "b")]]
    assert info["output_token_ids_logprobs"] == [[(-2.0, 98, "b")], [(-3.0, 98, "b")]]
    delta = stream.result(incremental=True)["meta_info"]
    assert delta["output_token_logprobs"] == [(-0.125, END_ID, "<end>")]
    assert delta["output_top_logprobs"] == [[(-0.125, END_ID, "<end>")]]
    assert delta["input_token_logprobs"] == info["input_token_logprobs"]
    assert delta["output_token_logprobs_length"] == 2
    await events.aclose()


async def test_logprob_keys_appear_only_where_asked(system: FakeSystem) -> None:
    group = await submit(system, text=["a", "b"], rid=["x", "y"], return_logprob=[True, False], top_logprobs_num=[0, 2])
    delta = m.LogprobDelta(output_val=[-1.0], output_idx=[5])
    system.say("x", "", [5], STOP, delta)
    system.say("y", "", [5], STOP)
    first, second = await finished(group)
    names = {"input_token_logprobs", "output_token_logprobs", "output_token_logprobs_length"}
    assert {key for key in first["meta_info"] if "logprob" in key} == names
    assert first["meta_info"]["output_token_logprobs"] == [(-1.0, 5, None)]
    assert not {key for key in second["meta_info"] if "logprob" in key}


# ------------------------------------------------------------------ rids and aborts


@pytest.mark.parametrize(
    ("running", "again"),
    [
        ({"rid": "r"}, {"rid": "r"}),
        ({"rid": "r", "sampling_params": {"n": 2}}, {"rid": "r"}),
        ({"rid": "r", "sampling_params": {"n": 2}}, {"rid": "r_1"}),
        ({"rid": "r_1"}, {"rid": "r", "sampling_params": {"n": 2}}),
    ],
)
async def test_a_live_rid_can_not_be_taken(system: FakeSystem, running: dict[str, Any], again: dict[str, Any]) -> None:
    await submit(system, text="a", **running)
    before = system.manager.live_requests
    with pytest.raises(InvalidRequest, match="rid"):
        await submit(system, text="a", **again)
    assert system.manager.live_requests == before


async def test_a_finished_rid_is_free_again(system: FakeSystem) -> None:
    for _ in range(2):
        group = await submit(system, text="a", rid="r", sampling_params={"n": 2})
        system.say("r_0", "x", [1], STOP)
        system.say("r_1", "y", [1], STOP)
        assert [one["text"] for one in await finished(group)] == ["x", "y"]


async def test_abort_is_exact_and_a_parent_means_all_its_children(system: FakeSystem) -> None:
    await submit(system, text="a", rid="r", sampling_params={"n": 2})
    await submit(system, text="a", rid="r2")
    for _ in range(3):
        await system.next(m.TokenizedGenerateReqInput)
    await system.manager.abort("nobody")
    await system.manager.abort("")
    await system.nothing_sent()
    await system.manager.abort("r")
    assert {(await system.next(m.AbortReq)).rid for _ in range(2)} == {"r_0", "r_1"}
    await system.manager.abort("r_1")
    assert (await system.next(m.AbortReq)).rid == "r_1"
    await system.manager.abort(abort_all=True)
    assert {(await system.next(m.AbortReq)).rid for _ in range(3)} == {"r_0", "r_1", "r2"}


async def test_aborted_requests_end_with_what_they_had(system: FakeSystem) -> None:
    group = await submit(system, text=["a", "b"], rid=["running", "waiting"])
    system.say("running", "par", [1], ABORTED)
    system.outbox.send(
        m.AbortReq(rid="waiting", finished_reason={"type": "abort", "message": "Abort in waiting queue"})
    )
    running, waiting = await finished(group)
    assert (running["text"], running["meta_info"]["finish_reason"]) == ("par", ABORTED)
    assert (waiting["text"], waiting["meta_info"]["completion_tokens"]) == ("", 0)
    assert waiting["meta_info"]["finish_reason"] == {"type": "abort", "message": "Abort in waiting queue"}
    for stream in group.streams:
        stream.raise_for_abort()  # asked for, so no error


@pytest.mark.parametrize(("status", "kind"), [(400, InvalidRequest), (503, RequestAborted), (500, RequestAborted)])
async def test_refusals_of_the_scheduler_become_errors(system: FakeSystem, status: int, kind: type[Exception]) -> None:
    group = await submit(system, text="a", rid="r")
    reason = {"type": "abort", "message": "no room", "status_code": status, "err_type": None}
    system.outbox.send(m.AbortReq(rid="r", finished_reason=reason))
    await finished(group)
    with pytest.raises(kind, match="no room") as caught:
        group.streams[0].raise_for_abort()
    if isinstance(caught.value, RequestAborted):
        assert caught.value.status_code == status


async def test_leaving_a_stream_aborts_what_still_runs(system: FakeSystem) -> None:
    group = await submit(system, text=["a", "b"], rid=["x", "y"], stream=True)
    for _ in range(2):
        await system.next(m.TokenizedGenerateReqInput)
    system.say("x", "done", [1], STOP)
    events = group.events()
    await anext(events)
    await events.aclose()
    assert (await system.next(m.AbortReq)).rid == "y"
    group.abort()
    await system.nothing_sent()


async def test_a_cancelled_wait_aborts_unless_in_the_background(system: FakeSystem) -> None:
    for background in (False, True):
        group = await submit(system, text="a", background=background)
        await system.next(m.TokenizedGenerateReqInput)
        waiting = asyncio.create_task(group.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        if background:
            await system.nothing_sent()
        else:
            assert (await system.next(m.AbortReq)).rid == group.streams[0].rid


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
