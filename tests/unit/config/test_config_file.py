"""``--config FILE.yaml``."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglang.config.server_args import ServerArgs, prepare_server_args


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "server.yaml"
    path.write_text(text)
    return str(path)


def test_keys_with_dashes_and_underscores_and_aliases(tmp_path: Path) -> None:
    config = write(
        tmp_path,
        "model: m\nmax-running-requests: 4\ncontext_length: 8k\nchunked-prefill-size: -1\n"
        "disable-radix-cache: true\nskip-server-warmup: false\napi-key: null\n"
        "preferred-sampling-params: {top_p: 0.5}\n",
    )
    assert prepare_server_args(["--config", config]) == ServerArgs(
        model_path="m",
        max_running_requests=4,
        context_length=8192,
        chunked_prefill_size=-1,
        disable_radix_cache=True,
        preferred_sampling_params={"top_p": 0.5},
    )


@pytest.mark.parametrize("order", [0, 1])
def test_the_command_line_wins(tmp_path: Path, order: int) -> None:
    config = ["--config", write(tmp_path, "port: 1\nhost: h\n")]
    words = ["--port", "2", *config] if order else [*config, "--port", "2"]
    args = prepare_server_args(words)
    assert (args.port, args.host) == (2, "h")


def test_lists(tmp_path: Path) -> None:
    config = write(tmp_path, "cuda-graph-bs-decode: [1, 2]\nlog-requests-target: [stdout]\n")
    with pytest.warns(UserWarning, match="no effect"):
        args = prepare_server_args([f"--config={config}"])
    assert (args.cuda_graph_bs_decode, args.log_requests_target) == ([1, 2], ["stdout"])


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    assert prepare_server_args(["--config", write(tmp_path, "# nothing\n")]) == ServerArgs()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max-runing-requests: 4\n", "unknown key 'max-runing-requests'; did you mean --max-running-requests?"),
        ("config: other.yaml\n", "unknown key 'config'"),
        ("help: true\n", "unknown key 'help'"),
        ("- a\n", "not a list"),
        ("a: [\n", "is not YAML"),
        ("disable-radix-cache: 3\n", "--disable-radix-cache is a switch"),
        ("port: [1]\n", "--port takes one plain value"),
        ("port: true\n", "--port takes one plain value"),
        ("port: abc\n", "invalid int value"),
    ],
)
def test_errors_name_the_file_or_the_key(
    tmp_path: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        prepare_server_args(["--config", write(tmp_path, text)])
    assert exit_info.value.code == 2
    assert message in capsys.readouterr().err


def test_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        prepare_server_args(["--config", str(tmp_path / "no.yaml")])
    assert "no.yaml can't be read: No such file or directory" in capsys.readouterr().err
