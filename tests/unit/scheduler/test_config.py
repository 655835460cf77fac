"""Server settings and environment become scheduler settings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sglang.config.env import Env
from sglang.config.model_config import ModelConfig
from sglang.config.server_args import ServerArgs
from sglang.processes.scheduler.config import SchedulerConfig, scheduler_config

MODEL = ModelConfig(
    path="m",
    format="hf",
    architecture="LlamaForCausalLM",
    hf={},
    vocab_size=100,
    hidden_size=8,
    num_layers=1,
    num_heads=1,
    num_kv_heads=1,
    head_dim=8,
    context_length=512,
    eos_token_ids=(2, 7),
)


def config(num_slots: int = 4096, env: Env | None = None, **flags: object) -> SchedulerConfig:
    args = replace(ServerArgs(model_path="m"), **flags)  # type: ignore[arg-type]
    return scheduler_config(args, env or Env(), MODEL, num_slots)


def test_defaults() -> None:
    made = config()
    assert made.eos_token_ids == {2, 7}
    assert made.init_new_token_ratio == pytest.approx(0.7)
    assert made.min_new_token_ratio == pytest.approx(0.098)
    assert made.new_token_ratio_decay == pytest.approx((0.7 - 0.098) / 600)
    assert (made.policy, made.stream_interval, made.silent_interval) == ("fcfs", 1, 50)
    assert made.waiting_timeout is made.running_timeout is None
    assert made.max_prefill_tokens == 16384
    assert made.chunked_prefill_size is None
    assert made.prompt_share == 1.25


def test_the_share_of_prompts_gives_way_to_the_flag_for_mixed_chunks() -> None:
    assert config(enable_mixed_chunk=True).prompt_share is None
    assert config(env=Env(prompt_share=0.0)).prompt_share is None
    assert not config(env=Env(prompt_share=0.0)).mixes
    assert config(env=Env(prompt_share=0.5)).prompt_share == 0.5


def test_flags_and_environment() -> None:
    made = config(
        env=Env(req_waiting_timeout=3.0, retract_decode_steps=5, force_stream_interval=7),
        schedule_conservativeness=2.0,
        chunked_prefill_size=-1,
        schedule_policy="priority",
        disable_radix_cache=True,
        max_prefill_tokens=100,
        disable_priority_preemption=True,
    )
    assert made.init_new_token_ratio == 1.0
    assert (made.waiting_timeout, made.retract_decode_steps, made.silent_interval) == (3.0, 5, 7)
    assert made.chunked_prefill_size is None
    assert made.enable_priority_scheduling
    assert not made.enable_priority_preemption
    assert not made.enable_prefix_cache
    assert made.max_prefill_tokens == 512  # one whole context must fit


def test_running_requests_are_bounded_by_the_pool() -> None:
    assert config(num_slots=64).max_running_requests == 64
    assert config(num_slots=64, page_size=16).max_running_requests == 4
    assert config(num_slots=100_000).max_running_requests == 256
    assert config(max_running_requests=3).max_running_requests == 3


def test_lengths_follow_from_context_and_pool() -> None:
    assert (config().max_req_len, config().max_req_input_len) == (512, 511)
    small = config(num_slots=103, page_size=10)
    assert (small.capacity, small.max_req_len, small.max_req_input_len) == (100, 101, 100)


def test_a_pool_below_one_page_is_refused() -> None:
    with pytest.raises(ValueError, match=r"7 slots.*page of 16.*--max-total-tokens"):
        config(num_slots=7, page_size=16)
