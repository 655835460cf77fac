"""Open settings and how they are filled in."""

from __future__ import annotations

import warnings

import pytest

from sglang.config.resolve import resolve_args
from sglang.config.server_args import ServerArgs


def test_open_settings_get_values_and_reasons() -> None:
    resolution = resolve_args(ServerArgs(model_path="m"), seed=7)
    args = resolution.args
    assert (args.tokenizer_path, args.served_model_name) == ("m", "m")
    assert (args.device, args.random_seed, args.chunked_prefill_size) == ("cpu", 7, 4096)
    assert (args.attention_backend, args.sampling_backend) == ("native", "pytorch")
    assert args.log_level_http == "info"
    assert {decision.field for decision in resolution.decisions} == {
        "tokenizer_path",
        "served_model_name",
        "device",
        "random_seed",
        "log_level_http",
        "chunked_prefill_size",
        "attention_backend",
        "sampling_backend",
        "load_balance_method",
    }
    assert "device = cpu (the only device with kernels)" in map(str, resolution.decisions)


def test_given_settings_stay() -> None:
    given = ServerArgs(
        model_path="m",
        tokenizer_path="t",
        served_model_name="s",
        random_seed=1,
        chunked_prefill_size=-1,
        log_level_http="error",
    )
    args = resolve_args(given, seed=7).args
    assert (args.tokenizer_path, args.served_model_name, args.random_seed) == ("t", "s", 1)
    assert (args.chunked_prefill_size, args.log_level_http) == (-1, "error")


def test_pure_and_idempotent() -> None:
    given = ServerArgs(model_path="m")
    resolution = resolve_args(given, seed=7)
    assert given == ServerArgs(model_path="m")
    again = resolve_args(resolution.args, seed=8)
    assert (again.args, again.decisions) == (resolution.args, ())


def test_seeds_are_drawn_afresh() -> None:
    seeds = {resolve_args(ServerArgs()).args.random_seed for _ in range(8)}
    assert len(seeds) > 1


def test_policy_priority_means_fcfs_by_priority() -> None:
    args = resolve_args(ServerArgs(schedule_policy="priority")).args
    assert (args.schedule_policy, args.enable_priority_scheduling) == ("fcfs", True)


def test_resolving_does_not_repeat_warnings() -> None:
    with pytest.warns(UserWarning, match="enable-metrics"):
        args = ServerArgs(enable_metrics=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve_args(args)
