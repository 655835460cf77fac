"""Replays recorded requests of the reference where the samples lie beside the checkout.

Compared: status, key sets, types, finish reasons, token counts, event order, greedy text. Not compared: ids, times,
error wording, sampled text. Where we differ on purpose, ``DIFFERENT`` says how and why.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from e2e.conftest import REPO, Server, start_server

SAMPLES = REPO.parent / "shared" / "golden"
pytestmark = pytest.mark.skipif(not SAMPLES.exists(), reason="recorded samples are not beside this checkout")

ROUTES = {
    "/generate", "/v1/completions", "/v1/chat/completions", "/v1/models", "/tokenize", "/v1/tokenize",
    "/v1/detokenize", "/health", "/ready", "/ping", "/model_info", "/get_model_info", "/get_server_info",
    "/server_info", "/flush_cache", "/", "/nonexistent", "/v1", "/v1/models/nope", "/v1/models/smollm2",
    "/v1/loads", "/nope", "/parse_function_call", "/separate_reasoning", "/v1/responses",
    "/v1/messages", "/v1/messages/count_tokens", "/invocations", "/vertex_generate", "/api/chat", "/api/generate",
    "/api/tags", "/api/show", "/api/ps",
}  # fmt: skip

# Only with metrics on, or of features that are not here yet: never required.
OPTIONAL_KEYS = {
    "storage_prefetch_wait", "storage_staging_wait", "forward_entry_time", "prefill_finished_time", "queue_time",
    "request_received_ts", "first_token_latency", "api_server_dispatch_finish_ts", "request_finished_ts",
    "decode_throughput", "embedding",
}  # fmt: skip
VOLATILE = {
    "id", "created", "e2e_latency", "response_sent_to_client_ts", "cached_tokens", "cached_tokens_details", "message",
    "model_path", "tokenizer_path", "root", "weight_version", "version", "timestamp", "dp_rank",
    "created_at", "modified_at", "digest", "size", "total_duration", "load_duration", "prompt_eval_duration",
    "eval_duration", "smollm2.block_count", "smollm2.embedding_length", "smollm2.attention.head_count",
}  # fmt: skip

EXACT = ["--attention-backend", "torch_native"]
"""The samples were recorded in float32: rounding activations to int8 may tip a near tie."""

# name -> (expected status, why).
DIFFERENT: dict[str, tuple[int, str]] = {
    "generate_image_data_on_text_model": (400, "a text model would answer without having seen the picture"),
    "generate_wrong_content_type": (200, "the native routes read JSON whatever the header says"),
    "generate_bad_n_neg": (400, "n below 1 is an error, not one sample"),
    "generate_stop_empty_string": (400, "an empty stop string would match at once"),
    "generate_empty_text": (400, "an empty prompt ended the reference's process"),
    "x_batch_params_len_mismatch": (400, "a length mismatch is the caller's error"),
    "x_beam_width": (400, "beam search is not supported; say so"),
    "truncate_chat": (200, "a truncated prompt fills the context up to one token and still gives an answer"),
    "truncate_generate_exact": (200, "same"),
    "truncate_generate_prompt": (200, "same"),
    "chat_stream_bad_schema": (400, "a bad grammar is refused before the stream begins"),
    "chat_tools_required_no_parser": (200, "a forced call is read back whatever the flags say"),
    "chat_tools_named_no_parser": (200, "same"),
    "chat_tools_named_stream_no_parser": (200, "same"),
    "chat_tools_noparam_required": (200, "arguments of a tool without parameters are {}, not null"),
    "forced_text_then_call_stream": (200, "white space before a call goes in both modes, as in the whole answer"),
    "forced_unknown_fn_stream": (200, "half a dropped call is not text"),
    "separate_reasoning_bad": (400, "an unknown parser is the caller's error"),
    "parse_function_call_bad_parser": (400, "same"),
    "messages_stop_sequences": (200, "a stop sequence is told as one"),
    "messages_stop_sequences_stream": (200, "same"),
    "auth_xapikey_messages": (200, "Anthropic's clients send the key in this header"),
    "ollama_chat_bad_temp": (400, "the caller's error is not the server's"),
    "ollama_chat_empty_messages": (200, "nothing to answer: the model is there"),
    "ollama_generate_empty_prompt": (400, "errors have the form of Ollama's own"),
    "ollama_generate_system": (200, "seeds work"),
    "ollama_chat_json": (200, "the format is followed"),
    "ollama_chat_length": (200, "the reason is told truly"),
    "ollama_generate_raw": (200, "same"),
    "ollama_ps": (200, "served here"),
    "ollama_chat_tools": (200, "tools are shown to the model"),
}

# Forced calls may be spaced otherwise than the reference spaces them: their token counts are free.
FREE_COUNTS = {
    "chat_tools_required", "chat_tools_named", "chat_tools_logprobs", "chat_tools_required_parallel_false",
    "messages_tools_any", "messages_tools_any_stream",
}  # fmt: skip
SHORTENED = {"responses_stream"}
"""Recorded with two tokens less than ``max_output_tokens`` asked for: only the order of events is compared."""
COUNTS = {"completion_tokens", "output_tokens", "total_tokens", "end"}


def unsupported(body: Any) -> bool:
    """Requests that need a feature of a later version: they get a clear 400."""
    if not isinstance(body, dict):
        return False
    return any(
        body.get(key) for key in ("session_params", "lora_path", "return_hidden_states", "custom_logit_processor")
    )


def samples(folder: str) -> list[Any]:
    out = []
    for path in sorted((SAMPLES / folder).glob("*.json")):
        sample = json.loads(path.read_text())
        if "request" in sample and sample["request"]["path"].split("?")[0] in ROUTES:
            out.append(pytest.param(sample, id=sample["name"]))
    return out


@pytest.fixture(scope="module")
def golden_server(smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    flags = ["--served-model-name", "smollm2", "--max-total-tokens", "16384", "--max-running-requests", "8", *EXACT]
    server = start_server(tmp_path_factory.mktemp("golden"), str(smollm2_gguf), *flags)
    yield server
    server.stop()


def send(server: Server, request: dict[str, Any]) -> httpx.Response:
    headers = {k: v for k, v in (request.get("headers") or {}).items() if k.lower() not in ("host", "content-length")}
    with server.client() as http:
        if request.get("body") is not None:
            return http.request(request["method"], request["path"], json=request["body"], headers=headers)
        raw = request.get("body_raw")
        content = raw.encode() if isinstance(raw, str) else raw
        return http.request(request["method"], request["path"], content=content, headers=headers)


def events(raw: str) -> list[Any]:
    lines = [line[5:].strip() for line in raw.splitlines() if line.startswith("data:")]
    found = [line if line == "[DONE]" else json.loads(line) for line in lines]
    return [event for event in found if event == "[DONE]" or event.get("type") != "ping"]


def merged(stream: list[Any]) -> list[Any]:
    """Neighbouring deltas of one kind put together: how a text is cut is nobody's promise."""
    out: list[Any] = []
    for event in stream:
        before, now = (_delta(out[-1]) if out else None), _delta(event)
        if before is not None and now is not None and before[0] == now[0]:
            before[1][before[2]] += now[1][now[2]]
        else:
            out.append(event)
    return out


def _delta(event: Any) -> tuple[Any, dict[str, Any], str] | None:
    """(choice and kind, where its text is, under which key) of a chat delta or a content block's."""
    if isinstance(event, dict) and event.get("type") == "content_block_delta":
        delta = event["delta"]
        return (event["index"], delta["type"]), delta, next(key for key in delta if key != "type")
    choices = event.get("choices") if isinstance(event, dict) else None
    if not choices or "delta" not in choices[0] or ("role" in choices[0]["delta"] and choices[0]["delta"]["role"]):
        return None
    index, delta = choices[0]["index"], choices[0]["delta"]
    if choices[0]["logprobs"] is not None or choices[0]["finish_reason"] is not None:
        return None
    for call in delta.get("tool_calls", ()):
        return ((index, "call", call["index"]), call["function"], "arguments") if call["id"] is None else None
    if isinstance(delta.get("content"), str):
        return (index, "content"), delta, "content"
    return None


def compare(ours: Any, theirs: Any, path: str, sampled: bool, free: frozenset[str] = frozenset()) -> None:
    """Same shape; same values where they are determined."""
    if isinstance(theirs, dict):
        assert isinstance(ours, dict), path
        missing = set(theirs) - set(ours) - OPTIONAL_KEYS
        assert not missing, f"{path}: missing {sorted(missing)}"
        for key in set(theirs) & set(ours):
            if key in VOLATILE or key in free or (sampled and key == "finish_reason"):
                continue
            compare(ours[key], theirs[key], f"{path}.{key}", sampled, free)
    elif isinstance(theirs, list):
        assert isinstance(ours, list), path
        if sampled or path.endswith(("logprobs", "_ids")) or (free and path.endswith("logprobs.content")):
            return
        assert len(ours) == len(theirs), f"{path}: {len(ours)} items, expected {len(theirs)}"
        for i, (left, right) in enumerate(zip(ours, theirs, strict=True)):
            compare(left, right, f"{path}[{i}]", sampled, free)
    elif isinstance(theirs, bool) or theirs is None or isinstance(ours, bool) or ours is None:
        assert sampled or ours == theirs, f"{path}: {ours!r}, expected {theirs!r}"
    elif isinstance(theirs, float) or isinstance(ours, float):
        assert isinstance(ours, (int, float)), path
        if not sampled and "logprob" in path:
            assert abs(ours - theirs) < 2e-3, f"{path}: {ours}, expected {theirs}"
    elif sampled and path.rsplit(".", 1)[-1] in ("text", "content", "matched", "matched_stop"):
        return
    else:
        assert type(ours) is type(theirs), f"{path}: {ours!r}, expected {theirs!r}"
        assert sampled or ours == theirs, f"{path}: {ours!r}, expected {theirs!r}"


def sampled(body: Any) -> bool:
    """Is the answer's text a matter of chance?"""
    if not isinstance(body, dict):
        return False
    body = body.get("options") or body.get("parameters") or body
    params = body.get("sampling_params", body if "text" not in body and "input_ids" not in body else None)
    temperature = params.get("temperature", 1) if isinstance(params, dict) else 1
    return not isinstance(temperature, (int, float)) or temperature > 1e-6


def event_types(stream: list[Any]) -> list[str]:
    """Types in order, deltas in a row counted once."""
    types = [event["type"] for event in stream]
    return [kind for at, kind in enumerate(types) if at == 0 or kind != types[at - 1] or "delta" not in kind]


def by_choice(stream: list[Any]) -> list[Any]:
    """Events grouped by choice: how the choices of one stream interleave is a matter of timing."""

    def index(event: Any) -> int:
        if not isinstance(event, dict):
            return 1 << 30
        choices = event.get("choices")
        if choices is not None:
            return int(choices[0]["index"]) if choices else 1 << 29
        return int(event.get("index", 0))

    return sorted(stream, key=index)


def check(server: Server, sample: dict[str, Any], *, exact: bool = True) -> None:
    """``exact``: texts of greedy answers must be the recorded ones."""
    request, theirs = sample["request"], sample.get("response")
    exact = exact and sample["name"] not in SHORTENED
    if unsupported(request.get("body")):
        response = send(server, request)
        is_stream = response.status_code == 200 and '"error"' in response.text
        assert response.status_code == 400 or is_stream, response.text[:300]
        return
    response = send(server, request)
    if sample["name"] in DIFFERENT:
        assert response.status_code == DIFFERENT[sample["name"]][0], response.text[:300]
        return
    assert response.status_code == theirs["status"], response.text[:500]
    if "server_info" in request["path"] and response.status_code == 200:  # every build has flags of its own
        assert {"model_path", "tp_size", "internal_states", "version", "max_total_num_tokens"} <= set(response.json())
        return
    kind = response.headers.get("content-type", "").split(";")[0]
    free = frozenset(COUNTS if sample["name"] in FREE_COUNTS else ())
    if kind == "text/event-stream":
        ours, reference = events(response.text), events(theirs["body_raw"])
        if not exact or sampled(request.get("body")):
            compare(ours[0], reference[0], "event0", True)
            if sample["name"] in SHORTENED:
                assert event_types(ours)[:-1] == event_types(reference)[:-1]
                return
            compare(ours[-1], reference[-1], "last event", True)
            if "type" in ours[0]:
                assert event_types(ours) == event_types(reference)
        else:
            compare(merged(by_choice(ours)), merged(by_choice(reference)), "events", False, free)
    elif theirs.get("body_json") is not None:
        counters = "/v1/loads" in request["path"]  # they tell of all requests before this one
        loose = not exact or sampled(request.get("body")) or theirs["status"] != 200 or counters
        compare(response.json(), theirs["body_json"], "", loose, free)


@pytest.mark.parametrize("sample", samples("smol_default") if SAMPLES.exists() else [])
def test_default(golden_server: Server, sample: dict[str, Any]) -> None:
    check(golden_server, sample)


AUTH_KEYS = {"api": "sk-user", "admin": "sk-admin"}


def flag_samples(prefix: str) -> list[Any]:
    return [p for p in samples("smol_flags") if p.values[0]["name"].startswith(prefix)]  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def flags_server(smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    flags = [
        "--served-model-name", "smollm2", "--max-total-tokens", "4096", "--context-length", "256",
        "--api-key", AUTH_KEYS["api"], "--admin-api-key", AUTH_KEYS["admin"], "--enable-cache-report",
        "--incremental-streaming-output", "--allow-auto-truncate", "--max-running-requests", "8", *EXACT,
    ]  # fmt: skip
    server = start_server(tmp_path_factory.mktemp("flags"), str(smollm2_gguf), *flags)
    yield server
    server.stop()


@pytest.mark.parametrize("sample", flag_samples("") if SAMPLES.exists() else [])
def test_flags(flags_server: Server, sample: dict[str, Any]) -> None:
    check(flags_server, sample)


@pytest.fixture(scope="module")
def qwen_server(qwen25_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    flags = [
        "--served-model-name", "qwen", "--tool-call-parser", "qwen25", "--max-total-tokens", "16384",
        "--max-running-requests", "8",
    ]  # fmt: skip
    server = start_server(tmp_path_factory.mktemp("qwen"), str(qwen25_gguf), *flags)
    yield server
    server.stop()


@pytest.mark.parametrize("sample", samples("qwen_tools") if SAMPLES.exists() else [])
def test_qwen(qwen_server: Server, sample: dict[str, Any]) -> None:
    """Shapes and states only: in float32 too, some of this model's choices are near ties."""
    check(qwen_server, sample, exact=False)
