"""The official openai package, unmodified, on /v1/files and /v1/batches of a real server, killed and started again."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import openai
import pytest

from e2e.conftest import Server, start_server

pytestmark = pytest.mark.e2e

CHAT = "/v1/chat/completions"


def client_of(server: Server) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=120)


def jsonl(count: int, max_tokens: int, url: str = CHAT) -> bytes:
    lines = []
    for number in range(count):
        body = {
            "model": "smollm2", "messages": [{"role": "user", "content": f"Tell me about the number {number}."}],
            "max_tokens": max_tokens, "temperature": 0,
        }  # fmt: skip
        lines.append(json.dumps({"custom_id": f"r-{number}", "method": "POST", "url": url, "body": body}))
    return "\n".join(lines).encode()


def start(sdk: openai.OpenAI, data: bytes) -> Any:
    file = sdk.files.create(file=("input.jsonl", data), purpose="batch")
    return sdk.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h", metadata={"job": "test"})


def finished(sdk: openai.OpenAI, name: str) -> Any:
    while (batch := sdk.batches.retrieve(name)).status in ("validating", "in_progress", "finalizing", "cancelling"):
        time.sleep(0.05)
    return batch


def answers(sdk: openai.OpenAI, name: str) -> dict[str, str]:
    lines = [json.loads(line) for line in sdk.files.content(name).text.splitlines()]
    texts = {line["custom_id"]: line["response"]["body"]["choices"][0]["message"]["content"] for line in lines}
    assert len(texts) == len(lines)
    return texts


def test_upload_run_and_read(stateful_api: Server) -> None:
    with client_of(stateful_api) as sdk:
        bad = json.dumps({"custom_id": "bad", "method": "POST", "url": CHAT, "body": {"messages": []}}).encode()
        batch = finished(sdk, start(sdk, jsonl(3, 4) + b"\n" + bad).id)
        assert batch.status == "completed"
        assert (batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed) == (4, 3, 1)
        assert batch.metadata == {"job": "test"}
        assert sorted(answers(sdk, batch.output_file_id)) == ["r-0", "r-1", "r-2"]
        error = json.loads(sdk.files.content(batch.error_file_id).text)
        assert (error["custom_id"], error["response"]["status_code"]) == ("bad", 400)
        assert batch.usage.output_tokens == 12
        assert next(iter(sdk.batches.list(limit=1))).id == batch.id
        assert batch.output_file_id in [file.id for file in sdk.files.list(purpose="batch_output")]
        assert sdk.files.delete(batch.output_file_id).deleted
        with pytest.raises(openai.NotFoundError):
            sdk.files.retrieve(batch.output_file_id)


def test_cancel(stateful_api: Server) -> None:
    with client_of(stateful_api) as sdk:
        batch = start(sdk, jsonl(200, 400))
        while sdk.batches.retrieve(batch.id).status == "validating":
            time.sleep(0.01)
        assert sdk.batches.cancel(batch.id).status in ("cancelling", "cancelled")
        done = finished(sdk, batch.id)
        assert done.status == "cancelled" and done.request_counts.completed < 200


def test_a_killed_server_goes_on_after_its_restart(smollm2_gguf: Path, tmp_path: Path) -> None:
    flags = [
        str(smollm2_gguf), "--served-model-name", "smollm2", "--max-total-tokens", "8192",
        "--max-running-requests", "4", "--file-storage-path", str(tmp_path / "files"),
    ]  # fmt: skip
    server = start_server(tmp_path, *flags)
    with client_of(server) as sdk:
        batch = start(sdk, jsonl(16, 24))
        while sdk.batches.retrieve(batch.id).request_counts.completed < 2:
            time.sleep(0.02)
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(20)
    saved = tmp_path / "files" / "batches" / batch.id / "good.jsonl"
    before = len(saved.read_bytes().splitlines())
    assert 2 <= before < 16
    server = start_server(tmp_path, *flags)
    try:
        with client_of(server) as sdk:
            done = finished(sdk, batch.id)
            assert done.status == "completed" and done.request_counts.completed == 16
            texts = answers(sdk, done.output_file_id)
            assert sorted(texts) == sorted(f"r-{number}" for number in range(16))
            alone = sdk.chat.completions.create(**json.loads(jsonl(1, 24))["body"])
            assert texts["r-0"] == alone.choices[0].message.content
    finally:
        assert server.stop() == 0, server.log.read_text()[-4000:]
