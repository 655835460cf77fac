"""Requests go out whole or not at all; outputs come back to the right caller; the end reaches everybody."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sglang.ipc import messages as m
from sglang.ipc.errors import InvalidRequest, RequestAborted
from unit.tokenizer.fake_scheduler import (
    ABORTED,
    CONTEXT,
    END_ID,
    STOP,
    ByteTokenizer,
    FakeSystem,
    finished,
    submit,
)

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
