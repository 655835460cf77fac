"""One request's place in its grammar."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sglang.grammar import state as module
from sglang.grammar.backend import Backend
from sglang.grammar.spec import GrammarError, GrammarSpec
from sglang.grammar.state import GrammarState
from sglang.grammar.vocabulary import Vocabulary
from unit.grammar.conftest import EOS, OTHER_EOS, token_of

A, B, C = token_of(b"a"), token_of(b"b"), token_of(b"c")


def state_of(backends: dict[str, Backend], vocabulary: Vocabulary, regex: str, **options: object) -> GrammarState:
    compiled = backends["xgrammar"].compile(GrammarSpec("regex", regex))
    stops = options.pop("stop_ids", [EOS, OTHER_EOS])
    return GrammarState(compiled, len(vocabulary.tokens), [EOS, OTHER_EOS], stops, **options)  # type: ignore[arg-type]


def shown(state: GrammarState) -> list[int]:
    found: list[int] = np.flatnonzero(np.unpackbits(state.mask.view(np.uint8), bitorder="little")).tolist()
    return found


def test_the_mask_follows_the_output(backends: dict[str, Backend], vocabulary: Vocabulary) -> None:
    state = state_of(backends, vocabulary, "[ab]c?")
    mask = state.mask
    assert (shown(state), state.forced) == ([A, B], None)
    state.advance([A])
    assert shown(state) == [EOS, OTHER_EOS, C]
    state.advance([A, C])
    assert shown(state) == [EOS, OTHER_EOS]
    state.advance([A, C, EOS])
    assert state.done
    assert state.mask is mask


def test_a_single_choice_is_forced(backends: dict[str, Backend], vocabulary: Vocabulary) -> None:
    state = state_of(backends, vocabulary, "[ab]z")
    state.advance([A])
    assert state.forced == token_of(b"z")


def test_a_token_that_is_not_allowed_is_an_error(backends: dict[str, Backend], vocabulary: Vocabulary) -> None:
    with pytest.raises(GrammarError, match="does not allow"):
        state_of(backends, vocabulary, "[ab]").advance([C])


def test_the_end_waits_for_min_new_tokens_unless_there_is_nothing_else(
    backends: dict[str, Backend], vocabulary: Vocabulary
) -> None:
    state = state_of(backends, vocabulary, "[ab]{1,3}", min_new_tokens=2)
    state.advance([A])
    assert shown(state) == [A, B, token_of(b"ab")]
    state.advance([A, A])
    assert EOS in shown(state)
    late = state_of(backends, vocabulary, "[ab]", min_new_tokens=5)
    late.advance([A])
    assert shown(late) == [EOS, OTHER_EOS]


def test_with_ignore_eos_only_a_complete_grammar_ends(backends: dict[str, Backend], vocabulary: Vocabulary) -> None:
    state = state_of(backends, vocabulary, "[ab]{1,2}", ignore_eos=True)
    state.advance([A])
    assert shown(state) == [A, B]
    state.advance([A, B])
    assert shown(state) == [EOS, OTHER_EOS]


def test_other_stop_tokens_wait_too(backends: dict[str, Backend], vocabulary: Vocabulary) -> None:
    state = state_of(backends, vocabulary, "[ab]c", min_new_tokens=5, stop_ids=[EOS, OTHER_EOS, B])
    assert shown(state) == [A]
    assert state.forced == A


def test_thinking_is_free_until_its_marker(backends: dict[str, Backend], vocabulary: Vocabulary) -> None:
    state = state_of(backends, vocabulary, "[ab]", think_end_ids=[C, A])
    output: list[int] = []
    for token in (B, A, C, B, C):
        output.append(token)
        state.advance(output)
        assert not state.is_active
        assert (state.mask == -1).all()
    state.advance([*output, A])
    assert state.is_active
    assert shown(state) == [A, B]


class _Slow:
    """A grammar that takes longer than the pace for every token."""

    size = 1

    def matcher(self) -> _Slow:
        return self

    def accept(self, token: int) -> bool:
        return True

    def fill(self, mask: np.ndarray) -> None:  # type: ignore[type-arg]
        random.Random(0).randbytes(20_000_000)
        mask[:] = 3


def follow_for_ever(state: GrammarState) -> None:
    for count in range(1, 1000):
        state.advance([1] * count)


def test_a_grammar_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    with pytest.raises(GrammarError, match="too long"):
        follow_for_ever(GrammarState(_Slow(), 64, [0], [0]))
