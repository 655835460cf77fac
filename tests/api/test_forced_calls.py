"""A model that must call a tool does so, whatever the tool's schema: every call parses and validates.

With ``SGLANG_TEST_FULL=1`` in the environment a hundred prompts run for each choice, instead of one for each tool.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from api.conftest import API_KEY
from api.tool_cases import Case, cases
from e2e.conftest import Server, start_server

pytestmark = pytest.mark.e2e

FULL = bool(os.environ.get("SGLANG_TEST_FULL"))
CASES = cases(100 if FULL else 12)
MAX_TOKENS = 400 if FULL else 200

SERVERS = ("qwen_api", "smol_api", "llguidance_api")
RUNS = [
    (server, choice, temperature) for server in SERVERS for choice in ("required", "named") for temperature in (0, 1)
]
LEAN = [
    ("qwen_api", "required", 1),
    ("qwen_api", "named", 0),
    ("smol_api", "named", 1),
    ("llguidance_api", "required", 1),
]
NOTHING = {"maxProperties": 0}


@pytest.fixture(scope="module")
def llguidance_api(smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    flags = ["--max-total-tokens", "16384", "--grammar-backend", "llguidance"]
    server = start_server(tmp_path_factory.mktemp("llguidance-api"), str(smollm2_gguf), *flags)
    yield server
    assert server.stop() == 0, server.log.read_text()[-4000:]


def ask(client: httpx.Client, case: Case, choice: str, temperature: float, seed: int) -> dict[str, Any]:
    body = {
        "messages": [{"role": "user", "content": case.ask}],
        "tools": case.tools,
        "tool_choice": "required" if choice == "required" else {"type": "function", "function": {"name": case.name}},
        "temperature": temperature,
        "seed": seed,
        "max_tokens": MAX_TOKENS,
    }
    answer = client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, (case, answer.text)
    found: dict[str, Any] = answer.json()["choices"][0]
    return found


def problem(case: Case, choice: str, answer: dict[str, Any]) -> str | None:
    """What is wrong with an answer; None if nothing is. Where tokens ran out, whole calls must be right too."""
    calls = answer["message"].get("tool_calls", [])
    if answer["message"]["content"] or (choice == "named" and len(calls) > 1):
        return f"{len(calls)} calls and the text {answer['message']['content']!r}"
    if answer["finish_reason"] not in ("tool_calls", "length") or (answer["finish_reason"] == "tool_calls") > len(
        calls
    ):
        return f"{len(calls)} calls, but it ends with {answer['finish_reason']}"
    return next((found for call in calls if (found := _problem(case, choice, call["function"]))), None)


def _problem(case: Case, choice: str, function: dict[str, Any]) -> str | None:
    known = {tool["function"]["name"]: tool["function"].get("parameters", NOTHING) for tool in case.tools}
    if function["name"] not in ([case.name] if choice == "named" else known):
        return f"calls {function['name']}"
    try:
        jsonschema.Draft202012Validator(known[function["name"]]).validate(json.loads(function["arguments"]))
    except (ValueError, jsonschema.ValidationError) as error:
        return f"{function}: {error}"
    return None


@pytest.mark.parametrize(("name", "choice", "temperature"), RUNS if FULL else LEAN)
def test_every_call_validates(request: pytest.FixtureRequest, name: str, choice: str, temperature: float) -> None:
    server: Server = request.getfixturevalue(name)
    with server.client(headers={"Authorization": f"Bearer {API_KEY}"}) as client, ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda at: ask(client, CASES[at], choice, temperature, at), range(len(CASES))))
    problems = [problem(case, choice, answer) for case, answer in zip(CASES, answers, strict=True)]
    assert [found for found in problems if found] == []
    assert sum(answer["finish_reason"] == "tool_calls" for answer in answers) >= len(CASES) // 2
