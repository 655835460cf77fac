"""The official openai package, unmodified, on /v1/completions, /v1/models and tokenizing of a real server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from e2e.conftest import Server

pytestmark = pytest.mark.e2e

PROMPT = "The capital of France is"


@pytest.fixture(scope="module")
def sdk(stateful_api: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=stateful_api.url + "/v1", api_key="none", max_retries=0, timeout=120) as client:
        yield client


def options(**extra: Any) -> dict[str, Any]:
    return {"model": "smollm2", "prompt": PROMPT, "temperature": 0, "max_tokens": 3, **extra}


def ids(server: Server, text: str) -> list[int]:
    with server.client() as http:
        body = http.post("/v1/tokenize", json={"prompt": text}).json()
        assert http.post("/v1/detokenize", json={"tokens": body["tokens"]}).json() == {"text": text}
        assert body["count"] == len(body["tokens"])
        return list(body["tokens"])


def test_echo_with_logprobs_scores_the_prompt(sdk: openai.OpenAI, stateful_api: Server) -> None:
    choice = sdk.completions.create(**options(), echo=True, logprobs=2).choices[0]
    assert choice.text.startswith(PROMPT + " Paris")
    scored = choice.logprobs
    assert scored is not None and scored.token_logprobs is not None and scored.tokens is not None
    assert "".join(scored.tokens) == choice.text
    assert scored.token_logprobs[0] is None and all(value < 0 for value in scored.token_logprobs[1:])
    # A prompt's token scores what it would as an answer to the tokens before it.
    head = ids(stateful_api, PROMPT)[:-1]
    alone = sdk.completions.create(**options(prompt=head, max_tokens=1), logprobs=1).choices[0]
    assert alone.logprobs is not None and alone.logprobs.token_logprobs is not None
    assert alone.text == " is"
    assert alone.logprobs.token_logprobs[0] == pytest.approx(scored.token_logprobs[len(head)], abs=1e-5)


def test_logprobs_zero_scores_the_prompt_too(sdk: openai.OpenAI) -> None:
    scored = sdk.completions.create(**options(), echo=True, logprobs=0).choices[0].logprobs
    assert scored is not None and scored.token_logprobs is not None
    assert len(scored.token_logprobs) == 5 + 3
    assert scored.top_logprobs == []


def test_every_form_of_prompt_and_n(sdk: openai.OpenAI, stateful_api: Server) -> None:
    said = sdk.completions.create(**options()).choices[0].text
    tokens = ids(stateful_api, PROMPT)
    prompts: list[Any] = [PROMPT, [PROMPT, PROMPT], tokens, [tokens, tokens]]
    for prompt in prompts:
        answer = sdk.completions.create(**options(prompt=prompt), n=2)
        count = 2 if prompt in (PROMPT, tokens) else 4
        assert [choice.index for choice in answer.choices] == list(range(count))
        assert {choice.text for choice in answer.choices} == {said}
        assert answer.usage is not None
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (5 * count // 2, 3 * count)


def test_stream_is_the_whole_answer(sdk: openai.OpenAI) -> None:
    whole = sdk.completions.create(**options(temperature=1, seed=5, max_tokens=12), n=2, logprobs=1)
    stream = sdk.completions.create(
        **options(temperature=1, seed=5, max_tokens=12), n=2, logprobs=1, stream=True,
        stream_options={"include_usage": True},
    )  # fmt: skip
    texts, scores, usage = ["", ""], [[], []], None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            scores[choice.index] += choice.logprobs.token_logprobs  # type: ignore[union-attr,operator]
    assert texts == [choice.text for choice in whole.choices] and texts[0] != texts[1]
    assert scores == [choice.logprobs.token_logprobs for choice in whole.choices]  # type: ignore[union-attr]
    assert usage is not None and whole.usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (whole.usage.prompt_tokens, whole.usage.completion_tokens)


def test_suffix_is_written_by_the_template(sdk: openai.OpenAI, stateful_api: Server) -> None:
    filled = f"<fim_prefix>{PROMPT}<fim_suffix>, said he.<fim_middle>"
    by_hand = sdk.completions.create(**options(prompt=filled))
    for prompt in (PROMPT, ids(stateful_api, PROMPT)):
        answer = sdk.completions.create(**options(prompt=prompt), suffix=", said he.")
        assert answer.choices[0].text == by_hand.choices[0].text
        assert answer.usage is not None and by_hand.usage is not None
        assert answer.usage.prompt_tokens == by_hand.usage.prompt_tokens > 5


def test_models(sdk: openai.OpenAI) -> None:
    assert [model.id for model in sdk.models.list()] == ["smollm2"]
    card = sdk.models.retrieve("smollm2")
    assert sdk.models.retrieve("smollm2") == card
    with pytest.raises(openai.NotFoundError):
        sdk.models.retrieve("gpt-4")


def test_refusals_name_the_field(sdk: openai.OpenAI) -> None:
    bad: list[dict[str, Any]] = [
        {"n": 0}, {"stop": [""]}, {"logprobs": -1}, {"max_tokens": 0}, {"prompt": []}, {"prompt": [[]]},
        {"prompt": [-1]}, {"prompt": [10**9]}, {"logit_bias": {"999999": 1}}, {"model": "smollm2:adapter"},
    ]  # fmt: skip
    for change in bad:
        with pytest.raises(openai.BadRequestError) as refused:
            sdk.completions.create(**options(**change))
        name = "lora" if "model" in change else "prompt" if "prompt" in change else next(iter(change))
        assert name in str(refused.value) or "input_ids" in str(refused.value), (change, refused.value)
