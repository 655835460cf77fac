"""Structured output on a real model: every output that ends matches, and nobody else notices."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import jsonschema
import pytest

from e2e.conftest import Server
from e2e.schemas import random_schema

pytestmark = pytest.mark.e2e

SCHEMAS = 40


def generate(client: httpx.Client, text: Any = "JSON: ", status: int = 200, **body: Any) -> Any:
    answer = client.post("/generate", json={"text": text, **body})
    assert answer.status_code == status, answer.text
    return answer.json()


def one(client: httpx.Client, **params: Any) -> tuple[str, dict[str, Any]]:
    found = generate(client, sampling_params={"max_new_tokens": 100, "temperature": 0, **params})
    return found["text"], found["meta_info"]["finish_reason"]


def test_outputs_validate(client: httpx.Client) -> None:
    schemas = [random_schema(seed) for seed in range(SCHEMAS)]
    params = [
        {"json_schema": json.dumps(schema), "temperature": 1.0, "max_new_tokens": 160, "sampling_seed": seed}
        for seed, schema in enumerate(schemas)
    ]
    outputs = generate(client, ["Here is a JSON object: "] * SCHEMAS, sampling_params=params)
    ended = 0
    for schema, output in zip(schemas, outputs, strict=True):
        reason = output["meta_info"]["finish_reason"]["type"]
        assert reason in ("stop", "length")
        if reason == "stop":
            ended += 1
            jsonschema.Draft202012Validator(schema).validate(json.loads(output["text"]))
    assert ended >= SCHEMAS // 2


@pytest.mark.parametrize(
    ("params", "pattern"),
    [
        ({"regex": "(19|20)[0-9]{2}"}, r"(19|20)\d\d"),
        ({"choice": ["red", "green", "blue"]}, "red|green|blue"),
        ({"ebnf": 'root ::= "a" [0-9]+ "z"', "max_new_tokens": 8}, r"a\d+z?"),
        ({"json_schema": '{"type":"object"}', "max_new_tokens": 8}, r"\{.*"),
        ({"json_schema": "$$ANY$$", "max_new_tokens": 3}, r".+"),
        (
            {
                "structural_tag": json.dumps(
                    {
                        "structures": [{"begin": "<n>", "schema": {"type": "integer", "maximum": 9}, "end": "</n>"}],
                        "triggers": ["<n"],
                        "at_least_one": True,
                    }
                )
            },
            r"(?s).*(<n>-?\d+</n>.*)?",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
@pytest.mark.parametrize("temperature", [0, 1])
def test_every_kind_matches(client: httpx.Client, params: dict[str, Any], pattern: str, temperature: float) -> None:
    text, reason = one(client, temperature=temperature, sampling_seed=1, **params)
    assert re.fullmatch(pattern, text, re.DOTALL), text
    assert reason["type"] == "length" or reason == {"type": "stop", "matched": 2}


BAD: list[tuple[dict[str, Any], str]] = [
    ({"regex": "((("}, "regex"),
    ({"ebnf": 'root ::= "'}, "ebnf"),
    ({"json_schema": "{not json"}, "json_schema"),
    ({"json_schema": '{"type":"nonsense"}'}, "#/type"),
    ({"json_schema": '{"type":"string","pattern":"^(unclosed$"}'}, "#/pattern"),
    ({"json_schema": '{"type":"array","uniqueItems":true}'}, "uniqueItems"),
    ({"structural_tag": "{}"}, "structural_tag"),
    ({"choice": ["a", ""]}, "choice"),
    ({"regex": "a", "json_schema": "{}"}, "json_schema and regex"),
    ({"regex": "((a{1,100}){1,100}){1,100}"}, "regex"),
    ({"ebnf": "root ::= root"}, "ebnf"),
]


@pytest.mark.parametrize(("params", "word"), BAD, ids=lambda value: value if isinstance(value, str) else "")
def test_a_wrong_grammar_is_a_400(client: httpx.Client, params: dict[str, Any], word: str) -> None:
    found = generate(client, status=400, sampling_params=params)
    assert word in found["error"]["message"]


def test_a_stream_says_what_is_wrong_too(client: httpx.Client) -> None:
    for params in ({"regex": "((("}, {"json_schema": "{not json"}):
        answer = client.post("/generate", json={"text": "x", "stream": True, "sampling_params": params})
        assert answer.text.endswith("data: [DONE]\n\n")
        assert '"output_ids":[]' in answer.text or '"error"' in answer.text
        assert f"{next(iter(params))}: " in answer.text


def test_a_hostile_grammar_disturbs_nobody(smol_server: Server, client: httpx.Client) -> None:
    expected = one(client, max_new_tokens=8, ignore_eos=True)
    hostile = {"ebnf": "root ::= a a a a a a a a\na ::=" + ' "x"*' * 20}

    def attack() -> int:
        with smol_server.client() as other:
            return other.post("/generate", json={"text": "x", "sampling_params": hostile}).status_code

    with ThreadPoolExecutor(1) as pool:
        attacker = pool.submit(attack)
        served = 0
        while not attacker.done():
            assert one(client, max_new_tokens=8, ignore_eos=True) == expected
            served += 1
        assert attacker.result() == 400
    assert served >= 1


def test_a_request_does_not_depend_on_its_batch(client: httpx.Client) -> None:
    """Grammar, n, penalties and seeds: the same alone, beside others, and streamed."""
    schema = json.dumps({"type": "object", "properties": {"a": {"type": "string", "maxLength": 9}}, "required": ["a"]})
    params = {
        "json_schema": schema,
        "temperature": 1.0,
        "sampling_seed": 5,
        "frequency_penalty": 0.5,
        "max_new_tokens": 40,
    }
    alone = generate(client, sampling_params=params)
    others = [{"temperature": 1.0, "max_new_tokens": 20}, {"regex": "[ab ]{30}", "max_new_tokens": 30}] * 4
    batch = generate(client, ["JSON: "] * 9, sampling_params=[*others, params])
    assert batch[-1]["output_ids"] == alone["output_ids"]
    samples = generate(client, sampling_params={**params, "n": 2})
    assert samples[0]["output_ids"] == alone["output_ids"]
    assert samples[1]["output_ids"] != alone["output_ids"]
    with client.stream(
        "POST", "/generate", json={"text": "JSON: ", "stream": True, "sampling_params": params}
    ) as answer:
        events = [line[6:] for line in answer.iter_lines() if line.startswith("data: ")]
    assert json.loads(events[-2])["text"] == alone["text"]


def test_logprobs_are_those_of_the_masked_distribution_and_change_nothing(client: httpx.Client) -> None:
    params = {"regex": "(19|20)[0-9]{2}", "temperature": 0, "max_new_tokens": 20}
    plain = generate(client, sampling_params=params)
    scored = generate(client, sampling_params=params, return_logprob=True, top_logprobs_num=2)
    assert scored["output_ids"] == plain["output_ids"]
    values = [value for value, _, _ in scored["meta_info"]["output_token_logprobs"]]
    assert len(values) == len(plain["output_ids"])
    assert values[-1] == 0.0, "the end was the only choice"
    assert -3 < values[0] < 0


def test_characters_of_several_tokens_stream_whole(client: httpx.Client) -> None:
    params = {"regex": "(漢字🦙é){4}", "temperature": 0, "max_new_tokens": 60}
    with client.stream("POST", "/generate", json={"text": "x", "stream": True, "sampling_params": params}) as answer:
        events = [line[6:] for line in answer.iter_lines() if line.startswith("data: ")]
    texts = [json.loads(event)["text"] for event in events[:-1]]
    assert texts[-1] == "漢字🦙é" * 4
    assert not any("\ufffd" in text for text in texts)
    assert all(texts[-1].startswith(text) for text in texts)


def test_stop_strings_work_under_a_grammar(client: httpx.Client) -> None:
    text, reason = one(client, regex="alpha beta ENDMARK gamma", stop=["DMAR"])
    assert (text, reason) == ("alpha beta EN", {"type": "stop", "matched": "DMAR"})


@pytest.mark.parametrize("option", [{"ignore_eos": True}, {"min_new_tokens": 30}])
def test_a_complete_grammar_ends_the_output(client: httpx.Client, option: dict[str, Any]) -> None:
    text, reason = one(client, regex="[ab]{2,4}", **option)
    assert re.fullmatch("[ab]{4}", text)
    assert reason["type"] == "stop"


def test_large_limits_are_counted_not_unrolled(client: httpx.Client) -> None:
    schema = {
        "type": "object",
        "properties": {
            "t": {"type": "string", "maxLength": 4000},
            "l": {"type": "array", "items": {"type": "integer"}, "maxItems": 1000},
        },
    }
    text, _ = one(client, json_schema=json.dumps(schema), max_new_tokens=5)
    assert text.startswith("{")


def test_white_space_does_not_go_on_for_ever(client: httpx.Client) -> None:
    blanks = {216: 50.0, 198: 50.0, 201: 50.0}
    kinds = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}, "b": {"enum": ["z"]}}, "required": ["a", "b"]}
    text, reason = one(client, json_schema=json.dumps(kinds), logit_bias=blanks, max_new_tokens=300)
    assert reason["type"] == "stop"
    assert not re.search(r"\s{20,}", text)
    jsonschema.validate(json.loads(text), kinds)
