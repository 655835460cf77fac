"""Ids become text: no broken characters, no stop text, whatever the chunking; states come and go.

The ids are those of SmolLM2; 7042 is " Paris", 30 is ".", 198 a newline, 2 the end-of-turn token.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sglang.ipc.messages import BatchStrOutput, BatchTokenIDOutput, DecodeSpec, LogprobDelta
from sglang.processes.detokenizer.manager import DetokenizerManager
from sglang.text.tokenizer import Tokenizer, load_tokenizer

LENGTH = {"type": "length", "length": 9}


@pytest.fixture(scope="module")
def tokenizer(smollm2_gguf: Path) -> Tokenizer:
    return load_tokenizer(smollm2_gguf)


def outputs(
    ids: dict[str, list[int]], finish: dict[str, dict[str, Any]] | None = None, opened: list[DecodeSpec] | None = None
) -> BatchTokenIDOutput:
    """A step with these new ids a request."""
    rids = list(ids)
    return BatchTokenIDOutput(
        rids=rids,
        finished_reasons=[(finish or {}).get(rid) for rid in rids],
        output_ids=list(ids.values()),
        prompt_tokens=[3] * len(rids),
        completion_tokens=[len(new) for new in ids.values()],
        cached_tokens=[1] * len(rids),
        retraction_counts=[0] * len(rids),
        opened=opened or [],
    )


def pieces(tokenizer: Tokenizer, ids: list[int], reason: dict[str, Any], chunk: int, **spec: Any) -> list[str]:
    """The text deltas of one request whose ids arrive ``chunk`` at a time."""
    manager = DetokenizerManager(tokenizer)
    opened = [DecodeSpec(rid="r", **spec)]
    texts = []
    for start in range(0, len(ids), chunk):
        last = start + chunk >= len(ids)
        batch = outputs({"r": ids[start : start + chunk]}, {"r": reason} if last else None, opened)
        texts += manager.convert(batch).output_strs
        opened = []
    assert len(manager) == 0
    return texts


ANSWER = [504, 3575, 282, 4649, 314, 7042, 30, 2]


@pytest.mark.parametrize("chunk", [1, 2, 3, 8])
@pytest.mark.parametrize(
    ("ids", "matched", "spec", "text"),
    [
        (ANSWER, 2, {}, "The capital of France is Paris."),
        (ANSWER, 2, {"skip_special_tokens": False}, "The capital of France is Paris."),
        (
            ANSWER,
            2,
            {"skip_special_tokens": False, "no_stop_trim": True},
            "The capital of France is Paris.<|im_end|>",
        ),
        ([7042, 30], 30, {}, " Paris"),
        ([7042, 30], 30, {"no_stop_trim": True}, " Paris."),
        ([7042], "ari", {"stop": ["ari"]}, " P"),
        ([7042], "ari", {"stop": ["ari"], "no_stop_trim": True}, " Pari"),
        ([7042], "Paris", {"stop": ["Paris"]}, " "),
        ([7042, 30, 198, 198], "\n\n", {"stop": ["zzz", "\n\n"]}, " Paris."),
        ([7042, 30, 198], "\\n+", {"stop_regex": ["\\n+"]}, " Paris.\n"),
        ([7042, 2], "<|im_end|>", {"stop": ["<|im_end|>"]}, " Paris"),
        ([7042, 2], "<|im_end|>", {"stop": ["<|im_end|>"], "skip_special_tokens": False}, " Paris"),
        ([7042, 2], "NaN happened", {}, " Paris"),
    ],
)
def test_stops_are_cut_out_whatever_the_chunking(
    tokenizer: Tokenizer, ids: list[int], matched: int | str, spec: dict[str, Any], text: str, chunk: int
) -> None:
    reason = {"type": "stop", "matched": matched}
    assert "".join(pieces(tokenizer, ids, reason, chunk, **spec)) == text


def test_text_that_could_begin_a_stop_string_waits(tokenizer: Tokenizer) -> None:
    ids = [7042, 30, 198, 504]
    assert pieces(tokenizer, ids, LENGTH, 1, stop=["\n\n"]) == [" Paris", ".", "", "\nThe"]
    assert pieces(tokenizer, ids[:3], LENGTH, 1, stop=["\n\n"])[-1] == "\n"


@pytest.mark.parametrize("text", ["漢字🦙é", "a    b\n\n        return x", "👩‍👩‍👧 ok", "\r\n\ttab"])
def test_characters_are_never_halved(tokenizer: Tokenizer, text: str) -> None:
    deltas = pieces(tokenizer, tokenizer.encode(text), LENGTH, 1)
    assert "".join(deltas) == text
    assert not any("\ufffd" in delta for delta in deltas)


def test_a_character_that_stays_half_shows_at_the_end_only(tokenizer: Tokenizer) -> None:
    half = tokenizer.encode("🦙")[:-1]
    deltas = pieces(tokenizer, [7042, *half], LENGTH, 1)
    assert deltas[0] == " Paris"
    assert set(deltas[1:-1]) <= {""}
    assert "\ufffd" in deltas[-1]


def test_requests_of_a_step_do_not_mix_and_the_rest_passes_through(tokenizer: Tokenizer) -> None:
    manager = DetokenizerManager(tokenizer)
    batch = outputs({"a": [7042], "b": [504]}, opened=[DecodeSpec(rid="a"), DecodeSpec(rid="b", stop=["x"])])
    batch.logprobs = [LogprobDelta(output_val=[-0.5], output_idx=[7042]), None]
    assert manager.convert(batch) == BatchStrOutput(
        rids=["a", "b"],
        finished_reasons=[None, None],
        output_strs=[" Paris", "The"],
        output_ids=[[7042], [504]],
        prompt_tokens=[3, 3],
        completion_tokens=[1, 1],
        cached_tokens=[1, 1],
        retraction_counts=[0, 0],
        logprobs=batch.logprobs,
    )
    assert manager.convert(outputs({"b": [3575], "a": [30]}, {"a": LENGTH})).output_strs == [" capital", "."]
    assert len(manager) == 1


@pytest.mark.parametrize("reason", [LENGTH, {"type": "abort", "message": "Aborted"}, {"type": "stop", "matched": 2}])
def test_every_end_frees_the_state(tokenizer: Tokenizer, reason: dict[str, Any]) -> None:
    manager = DetokenizerManager(tokenizer)
    manager.convert(outputs({"r": [7042]}, opened=[DecodeSpec(rid="r")]))
    assert manager.convert(outputs({"r": []}, {"r": reason})).output_strs == [""]
    assert len(manager) == 0


def test_states_are_bounded_and_a_lost_one_is_survived(tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture) -> None:
    manager = DetokenizerManager(tokenizer, max_states=2)
    for rid in "abc":
        manager.convert(outputs({rid: [7042]}, opened=[DecodeSpec(rid=rid)]))
    assert len(manager) == 2
    assert "more than 2 requests" in caplog.text
    assert manager.convert(outputs({"a": [30]}, {"a": LENGTH})).output_strs == ["."]
    assert "request a has no decoding state" in caplog.text
    assert manager.convert(outputs({"c": [30]}, {"c": LENGTH})).output_strs == ["."]
