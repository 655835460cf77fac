"""ServerArgs as a dataclass, and as a command line."""

from __future__ import annotations

import argparse
import dataclasses
import pickle
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglang.config.args.declare import default_of, spec_of
from sglang.config.server_args import ServerArgs, prepare_server_args
from sglang.config.validate import NoEffectWarning, ServerArgsError

DOCUMENTED_DEFAULTS = {
    "model_path": "",
    "tokenizer_path": None,
    "skip_tokenizer_init": False,
    "load_format": "auto",
    "context_length": None,
    "dtype": "auto",
    "host": "127.0.0.1",
    "port": 30000,
    "api_key": None,
    "stream_interval": 1,
    "max_running_requests": None,
    "max_queued_requests": None,
    "max_prefill_tokens": 16384,
    "schedule_policy": "fcfs",
    "priority_scheduling_preemption_threshold": 10,
    "retraction_policy": "length",
    "schedule_conservativeness": 1.0,
    "page_size": 1,
    "radix_eviction_policy": "lru",
    "watchdog_timeout": 300.0,
    "log_level": "info",
    "decode_log_interval": 40,
    "sampling_defaults": "model",
    "tp_size": 1,
    "weight_version": "default",
    "grammar_backend": "xgrammar",
    "max_loras_per_batch": 8,
    "speculative_ngram_capacity": 10_000_000,
    "allowed_media_domains": [],
    "hicache_ratio": 2.0,
}


def test_defaults() -> None:
    values = dataclasses.asdict(ServerArgs())
    assert {name: values[name] for name in DOCUMENTED_DEFAULTS} == DOCUMENTED_DEFAULTS


def test_every_default_passes_its_own_checks_and_warns_about_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert prepare_server_args([]) == ServerArgs()


def test_every_field_is_declared_with_help() -> None:
    for field in dataclasses.fields(ServerArgs):
        assert spec_of(field).help, field.name


def test_asdict_round_trip_after_the_command_line() -> None:
    args = prepare_server_args(
        ["--model-path", "m", "--context-length", "4k", "--preferred-sampling-params", '{"a":1}']
    )
    assert ServerArgs(**dataclasses.asdict(args)) == args


def test_mutable_defaults_are_not_shared() -> None:
    ServerArgs().allowed_media_domains.append("example.org")
    assert ServerArgs().allowed_media_domains == []


def test_spawned_children_get_the_same_settings() -> None:
    args = ServerArgs(model_path="m", port=1)
    assert pickle.loads(pickle.dumps(args)) == args


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["--model", "m"], "model_path", "m"),
        (["--tp", "1"], "tp_size", 1),
        (["--tensor-parallel-size", "1"], "tp_size", 1),
        (["--data-parallel-size=1"], "dp_size", 1),
        (["--expert-parallel-size", "1"], "ep_size", 1),
        (["--context-length", "32k"], "context_length", 32768),
        (["--max-total-tokens", "1M"], "max_total_tokens", 1048576),
        (["--max-prefill-tokens", "2K"], "max_prefill_tokens", 2048),
        (["--chunked-prefill-size", "-1"], "chunked_prefill_size", -1),
        (["--stream-interval", "8"], "stream_interval", 8),
        (["--disable-radix-cache"], "disable_radix_cache", True),
        (["--schedule-conservativeness", "0.5"], "schedule_conservativeness", 0.5),
        (["--json-model-override-args", '{"a": 1}'], "json_model_override_args", '{"a": 1}'),
        (["--preferred-sampling-params", '{"top_p": 0.5}'], "preferred_sampling_params", {"top_p": 0.5}),
        (["--port", "1", "--port", "2"], "port", 2),
    ],
)
def test_flags(words: list[str], field: str, value: object) -> None:
    assert getattr(prepare_server_args(words), field) == value


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["--cuda-graph-max-bs", "8"], "cuda_graph_max_bs_decode", 8),
        (["--cuda-graph-bs", "1", "2"], "cuda_graph_bs_decode", [1, 2]),
        (["--nccl-init-addr", "h:1"], "dist_init_addr", "h:1"),
        (["--enable-metrics"], "enable_metrics", True),
        (["--bucket-e2e-request-latency", "0.5", "1"], "bucket_e2e_request_latency", [0.5, 1.0]),
        (["--log-requests-level", "3"], "log_requests_level", 3),
    ],
)
def test_flags_without_effect_are_kept_and_warn(words: list[str], field: str, value: object) -> None:
    with pytest.warns(NoEffectWarning, match=field.replace("_", "-")):
        args = prepare_server_args(words)
    assert getattr(args, field) == value


def test_a_flag_without_effect_warns_once_for_a_place() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            ServerArgs(enable_metrics=True)
    assert [str(item.message) for item in caught] == [
        "--enable-metrics is accepted but has no effect yet (serve /metrics for Prometheus)."
    ]
    assert caught[0].filename == __file__


def test_a_secret_is_not_named_in_a_warning() -> None:
    with pytest.warns(NoEffectWarning) as caught:
        ServerArgs(watermark_key="hush")
    assert "hush" not in str(caught[0].message)


def test_flags_that_describe_what_happens_anyway_pass_silently() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prepare_server_args(
            ["--disable-cuda-graph", "--attention-backend", "torch_native", "--sampling-backend", "pytorch"]
        )
        prepare_server_args(
            ["--disable-overlap-schedule", "--quantization", "gguf", "--enable-deterministic-inference"]
        )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--prot", "1"], "unknown argument '--prot'; did you mean --port?"),
        (["--max-running-request", "1"], "did you mean --max-running-requests?"),
        (["--port", "abc"], "invalid int value: 'abc'"),
        (["--schedule-policy", "best"], "invalid choice: 'best'"),
        (["--context-length", "32q"], "'32q' is not a number such as 4096 or 32k"),
        (["--preferred-sampling-params", "{"], "is not JSON"),
        (["qwen"], "unknown argument 'qwen'"),
    ],
)
def test_flag_errors(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        prepare_server_args(words)
    assert exit_info.value.code == 2
    assert message in capsys.readouterr().err


def test_namespace_of_a_users_own_parser() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--own", default="x")
    ServerArgs.add_cli_args(parser)
    args = ServerArgs.from_cli_args(parser.parse_args(["--port", "7", "--own", "y"]))
    assert args == ServerArgs(port=7)


def test_namespace_that_lacks_fields() -> None:
    assert ServerArgs.from_cli_args(argparse.Namespace(port=5)) == ServerArgs(port=5)


@pytest.mark.parametrize(
    ("fields", "port", "url"),
    [
        ({}, None, "http://127.0.0.1:30000"),
        ({"host": "0.0.0.0", "port": 8000}, None, "http://127.0.0.1:8000"),
        ({"host": "::"}, None, "http://[::1]:30000"),
        ({"host": "::1"}, 5, "http://[::1]:5"),
        ({"host": "example.org"}, 80, "http://example.org:80"),
        ({"ssl_keyfile": "k", "ssl_certfile": "c"}, None, "https://127.0.0.1:30000"),
    ],
)
def test_url(fields: dict[str, object], port: int | None, url: str) -> None:
    assert ServerArgs(**fields).url(port) == url  # type: ignore[arg-type]


def test_neighbouring_forms_are_normalised(tmp_path: Path) -> None:
    args = ServerArgs(
        model_path=tmp_path,  # type: ignore[arg-type]
        json_model_override_args={"a": 1},  # type: ignore[arg-type]
        preferred_sampling_params='{"b": 2}',  # type: ignore[arg-type]
    )
    assert args.model_path == str(tmp_path)
    assert args.json_model_override_args == '{"a": 1}'
    assert args.preferred_sampling_params == {"b": 2}
    assert ServerArgs(model_path=None).model_path == ""  # type: ignore[arg-type]


def test_public_dict_hides_secrets() -> None:
    args = ServerArgs(api_key="a", admin_api_key="b", ssl_keyfile="k", ssl_certfile="c", ssl_keyfile_password="d")
    shown = args.public_dict()
    assert [shown[name] for name in ("api_key", "admin_api_key", "ssl_keyfile_password")] == ["<redacted>"] * 3
    assert shown["ssl_keyfile"] == "k"
    assert ServerArgs().public_dict()["api_key"] is None


def test_replace_checks_but_does_not_repeat_warnings() -> None:
    with pytest.warns(NoEffectWarning):
        args = ServerArgs(enable_metrics=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert args.replace(port=1).port == 1
    with pytest.raises(ServerArgsError, match="--port 70000 is out of range"):
        args.replace(port=70000)


@given(st.data())
def test_any_number_survives_the_command_line(data: st.DataObject) -> None:
    """Every integer flag that works reads back what was written."""
    fields = [
        field
        for field in dataclasses.fields(ServerArgs)
        if spec_of(field).support == "works" and field.type in ("int", "int | None") and field.name != "port"
    ]
    field = data.draw(st.sampled_from(fields))
    value = data.draw(st.integers(1, 2**31))
    args = prepare_server_args([f"--{field.name.replace('_', '-')}={value}"])
    assert getattr(args, field.name) == value
    assert args.replace(**{field.name: default_of(field)}) == ServerArgs()
