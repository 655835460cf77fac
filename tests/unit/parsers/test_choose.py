"""The names that the flags offer are the parsers that exist."""

from __future__ import annotations

import pytest

from sglang.config.args.api import REASONING_PARSERS, TOOL_CALL_PARSERS
from sglang.parsers.choose import choose_reasoning, choose_tool_format
from sglang.parsers.count import ReasoningCounter
from sglang.parsers.reasoning import FORMATS
from sglang.parsers.registry import TOOL_PARSERS


def test_flags_offer_exactly_the_parsers() -> None:
    assert sorted(TOOL_CALL_PARSERS) == sorted((*TOOL_PARSERS, "auto"))
    assert sorted(REASONING_PARSERS) == sorted((*FORMATS, "auto"))


def test_auto_asks_the_template() -> None:
    assert choose_tool_format("auto", "<tool_call>") == "qwen25"
    assert choose_tool_format("auto", None) is None
    assert choose_tool_format(None, "<tool_call>") is None
    assert choose_reasoning("auto", "<think>\n") == "qwen3-thinking"
    with pytest.raises(ValueError, match="qwen25"):
        choose_tool_format("nope", None)
    with pytest.raises(ValueError, match="deepseek-r1"):
        choose_reasoning("nope", None)


@pytest.mark.parametrize(
    ("pieces", "inside", "count"),
    [
        (["<think>", "a", "b", "</think>", "c", "d"], False, 4),
        (["<th", "ink>a", "b</thi", "nk>c", "d"], False, 4),
        (["\n", "<think>", "a"], False, 3),
        (["a", "</think>", "c"], True, 2),
        (["a", "b"], True, 2),
        (["<", "b>", "<think>"], False, 0),
        (["<think>", "a", "<tool_call>", "x"], False, 3),
    ],
)
@pytest.mark.parametrize("at_once", [False, True])
def test_thinking_tokens_are_counted_to_the_token(pieces: list[str], inside: bool, count: int, at_once: bool) -> None:
    counter = ReasoningCounter(FORMATS["qwen3"], lambda token: pieces[token].encode(), inside)
    ids = list(range(len(pieces)))
    for step in [ids] if at_once else [[token] for token in ids]:
        counter.add(step)
    assert counter.count == count
