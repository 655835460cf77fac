"""The Engine over stand-in processes: result shapes, both faces, early leaving, the end."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
import pytest

from sglang.config.server_args import ServerArgs
from sglang.ipc.errors import RequestAborted
from unit.engine.stand_in import EchoEngine

FOUR = {"max_new_tokens": 4}
ENDLESS = {"max_new_tokens": 8000}
HELLO = [19556, 905]  # "Hello world" of SmolLM2


@pytest.fixture(scope="module")
def engine(smollm2_gguf: Path) -> Iterator[EchoEngine]:
    with EchoEngine(model_path=str(smollm2_gguf), random_seed=1) as running:
        yield running


def running_requests(engine: EchoEngine) -> int:
    return int(engine.get_server_info()["internal_states"][0]["running"])


def until_idle(engine: EchoEngine) -> None:
    while running_requests(engine):
        pass


def gone(pids: list[int]) -> bool:
    processes = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    _, alive = psutil.wait_procs(processes, timeout=10)
    return not alive


# ------------------------------------------------------------------ results


def test_one_prompt_gives_one_object(engine: EchoEngine) -> None:
    result = engine.generate("Hello world", FOUR)
    assert isinstance(result, dict)
    assert result["output_ids"] == HELLO * 2
    assert result["text"] == "Hello worldHello world"
    info = result["meta_info"]
    assert info["finish_reason"] == {"type": "length", "length": 4}
    assert (info["prompt_tokens"], info["completion_tokens"]) == (2, 4)


def test_ids_and_keywords_mean_the_same(engine: EchoEngine) -> None:
    by_ids = engine.generate(input_ids=HELLO, sampling_params=FOUR)
    by_text = engine.generate(prompt="Hello world", sampling_params=FOUR)
    assert isinstance(by_ids, dict)
    assert isinstance(by_text, dict)
    assert (by_ids["text"], by_ids["output_ids"]) == (by_text["text"], by_text["output_ids"])


def test_lists_and_samples_give_lists(engine: EchoEngine) -> None:
    batch = engine.generate(["Hello world", " the"], FOUR)
    assert isinstance(batch, list)
    assert [one["text"] for one in batch] == ["Hello worldHello world", " the the the the"]
    samples = engine.generate("Hello world", {**FOUR, "n": 2}, rid="r")
    assert isinstance(samples, list)
    assert [one["meta_info"]["id"] for one in samples] == ["r_0", "r_1"]
    assert isinstance(engine.generate(["Hello world"], FOUR), list)


def test_a_stream_is_a_generator_of_growing_objects(engine: EchoEngine) -> None:
    stream = engine.generate("Hello world", FOUR, stream=True)
    assert not isinstance(stream, dict | list)
    texts = [one["text"] for one in stream]
    assert texts[-1] == "Hello worldHello world"
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(texts))


def test_a_batch_stream_carries_indices(engine: EchoEngine) -> None:
    last: dict[int, dict[str, Any]] = {}
    for one in engine.generate(["Hello world", " the"], FOUR, stream=True):
        assert isinstance(one, dict)
        last[one["index"]] = one
    assert [last[i]["text"] for i in (0, 1)] == ["Hello worldHello world", " the the the the"]


@pytest.mark.parametrize(
    ("arguments", "kind", "part"),
    [
        ({"prompt": "x", "sampling_params": {"temperature": -1}}, ValueError, "temperature"),
        ({"prompt": "x", "sampling_params": {"foo": 1}}, TypeError, "foo"),
        ({"prompt": ""}, ValueError, "empty"),
        ({}, ValueError, "input_ids"),
        ({"prompt": "x", "return_routed_experts": True}, ValueError, "return_routed_experts"),
        ({"prompt": "x", "image_data": "x.png"}, ValueError, "image_data"),
    ],
)
def test_bad_requests_raise(engine: EchoEngine, arguments: dict[str, Any], kind: type[Exception], part: str) -> None:
    with pytest.raises(kind, match=part):
        engine.generate(**arguments)
    with pytest.raises(kind, match=part):
        list(engine.generate(**arguments, stream=True))


# ------------------------------------------------------------------ threads and loops


def test_any_thread_may_call(engine: EchoEngine) -> None:
    prompts = [f"Hello world {i}" for i in range(8)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda prompt: engine.generate(prompt, {"max_new_tokens": 1}), prompts))
    assert [one["output_ids"] for one in results] == [[19556]] * 8  # type: ignore[call-overload]


async def test_async_methods_work_in_a_foreign_loop(engine: EchoEngine) -> None:
    one, two = await asyncio.gather(
        engine.async_generate("Hello world", FOUR), engine.async_generate(["Hello world"], FOUR)
    )
    assert isinstance(one, dict)
    assert isinstance(two, list)
    assert one["text"] == two[0]["text"] == "Hello worldHello world"
    stream = await engine.async_generate("Hello world", FOUR, stream=True)
    assert not isinstance(stream, dict | list)
    texts = [item["text"] async for item in stream]
    assert texts[-1] == "Hello worldHello world"
    with pytest.raises(TypeError, match="foo"):
        await engine.async_generate("x", {"foo": 1})


async def test_blocking_methods_work_inside_a_running_loop(engine: EchoEngine) -> None:
    result = engine.generate("Hello world", FOUR)
    assert isinstance(result, dict)
    assert result["output_ids"] == HELLO * 2


def test_the_loop_runs_what_callers_give_it(engine: EchoEngine) -> None:
    reply = engine.loop.run_until_complete(engine.tokenizer_manager.flush_cache())
    assert reply.success
    assert engine.flush_cache().success

    async def wait_for_oneself() -> None:
        engine.flush_cache()

    with pytest.raises(RuntimeError, match="await"):
        engine.loop.run_until_complete(wait_for_oneself())


# ------------------------------------------------------------------ leaving early


def test_breaking_out_of_a_stream_frees_the_request(engine: EchoEngine) -> None:
    for _ in range(20):
        for _one in engine.generate("Hello world", ENDLESS, stream=True):
            break
    gc.collect()
    until_idle(engine)


async def test_a_cancelled_await_frees_the_request(engine: EchoEngine) -> None:
    task = asyncio.create_task(engine.async_generate("Hello world", ENDLESS))
    while engine.tokenizer_manager.live_requests == 0:
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    until_idle(engine)


async def test_leaving_an_async_stream_frees_the_request(engine: EchoEngine) -> None:
    stream = await engine.async_generate("Hello world", ENDLESS, stream=True)
    assert not isinstance(stream, dict | list)
    await anext(stream)
    await stream.aclose()
    until_idle(engine)


def test_abort_by_id_ends_with_the_text_so_far(engine: EchoEngine) -> None:
    stream = engine.generate("Hello world", ENDLESS, rid="r", stream=True)
    assert not isinstance(stream, dict | list)
    next(stream)
    engine.abort_request("r")
    *_, last = stream
    assert last["meta_info"]["finish_reason"]["type"] == "abort"
    assert last["text"].startswith("Hello")


# ------------------------------------------------------------------ information


def test_information_has_the_known_keys(engine: EchoEngine, smollm2_gguf: Path) -> None:
    info = engine.get_model_info()
    assert info["model_path"] == info["served_model_name"] == str(smollm2_gguf)
    assert info["is_generation"] is True
    server = engine.get_server_info()
    assert server["max_total_num_tokens"] == 4096
    assert server["random_seed"] == 1
    assert server["log_level"] == "error"
    assert len(engine.get_all_child_pids()) == 2


# ------------------------------------------------------------------ the end


def test_shutdown_leaves_nothing_and_may_come_twice(smollm2_gguf: Path) -> None:
    engine = EchoEngine(model_path=str(smollm2_gguf))
    pids, directory = engine.get_all_child_pids(), Path(engine.port_args.directory)
    assert directory.exists()
    engine.shutdown()
    engine.shutdown()
    assert gone(pids)
    assert not directory.exists()
    assert engine.loop.is_closed()
    with pytest.raises(RuntimeError):
        engine.generate("x")


def test_a_dropped_engine_ends_its_processes(smollm2_gguf: Path) -> None:
    args = ServerArgs(model_path=str(smollm2_gguf), skip_tokenizer_init=True)
    engine = EchoEngine(**asdict(args))
    result = engine.generate(input_ids=[5, 6], sampling_params={"max_new_tokens": 3})
    assert isinstance(result, dict)
    assert "text" not in result
    assert result["output_ids"] == [5, 6, 5]
    pids, directory = engine.get_all_child_pids(), Path(engine.port_args.directory)
    assert len(pids) == 1
    del engine
    gc.collect()
    assert gone(pids)
    assert not directory.exists()


def test_an_engine_made_in_a_thread_outlives_it(smollm2_gguf: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        engine = pool.submit(EchoEngine, model_path=str(smollm2_gguf)).result()
    with engine:
        result = engine.generate("Hello world", FOUR)
        assert isinstance(result, dict)
        assert result["output_ids"] == HELLO * 2
    assert gone(engine.get_all_child_pids())


def test_a_killed_child_ends_pending_calls_with_the_reason(smollm2_gguf: Path) -> None:
    with EchoEngine(model_path=str(smollm2_gguf)) as engine:
        stream = engine.generate("Hello world", ENDLESS, stream=True)
        assert not isinstance(stream, dict | list)
        next(stream)
        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(engine.generate, "Hello world", ENDLESS)
            while engine.tokenizer_manager.live_requests < 2:
                pass
            os.kill(engine.get_all_child_pids()[0], signal.SIGKILL)
            with pytest.raises(RequestAborted, match="scheduler process was ended by SIGKILL"):
                pending.result(timeout=10)
        *_, last = stream
        assert last["meta_info"]["finish_reason"]["status_code"] == 500
        assert gone(engine.get_all_child_pids())
        with pytest.raises(RequestAborted, match="SIGKILL") as refused:
            engine.generate("Hello world", FOUR)
        assert refused.value.status_code == 503
        directory = Path(engine.port_args.directory)
    assert not directory.exists()


def test_a_crashing_child_tells_its_own_reason(smollm2_gguf: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with EchoEngine(model_path=str(smollm2_gguf)) as engine:
        with pytest.raises(RequestAborted, match="exit code 1: ValueError: asked to crash"):
            engine.generate("Hello world", ENDLESS, rid="crash")
    assert "Traceback" in capfd.readouterr().err
