"""Stop strings and patterns."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang.ipc.errors import InvalidRequest
from sglang.text.stop import REGEX_WINDOW, StopMatcher, StopTrimmer, check_stop_regex

SMALL = st.text("ab.", min_size=1, max_size=4)


def chunks(data: st.DataObject, text: str) -> list[str]:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@given(data=st.data(), text=st.text("ab.", max_size=25), stop=st.lists(SMALL, max_size=3), keep=st.booleans())
@settings(max_examples=300, deadline=None)
def test_trimmed_text_does_not_depend_on_chunks(data: st.DataObject, text: str, stop: list[str], keep: bool) -> None:
    matched = data.draw(st.sampled_from([None, 7, "no such pattern", *stop]))
    trimmer = StopTrimmer(stop, keep)
    out = ""
    for chunk in chunks(data, text):
        out += trimmer.push(chunk)
        assert text.startswith(out)
    out += trimmer.finish(matched)
    at = text.find(matched) if matched in stop else -1
    assert out == (text if at < 0 else text[: at + len(matched)] if keep else text[:at])


@given(text=st.text("ab.", max_size=25), stop=st.lists(SMALL, min_size=1, max_size=3))
@settings(max_examples=300, deadline=None)
def test_only_what_could_begin_a_stop_string_is_held(text: str, stop: list[str]) -> None:
    out = StopTrimmer(stop).push(text)
    held = text[len(out) :]
    whole = [text.find(s) for s in stop if s in text]
    begun = [len(text) - n for s in stop for n in range(1, len(s)) if text.endswith(s[:n])]
    assert len(text) - len(held) == min([*whole, *begun, len(text)])


def test_trimming_across_chunks() -> None:
    trimmer = StopTrimmer(["DMAR"])
    assert [trimmer.push(chunk) for chunk in ("alpha beta ", "EN", "DM", "ARK gam")] == ["alpha beta ", "EN", "", ""]
    assert trimmer.finish("DMAR") == ""
    keeping = StopTrimmer(["DMAR"], no_stop_trim=True)
    assert keeping.push("ENDMARK gamma") + keeping.finish("DMAR") == "ENDMAR"
    assert StopTrimmer([]).push("all of it") == "all of it"


def test_held_text_is_returned_when_something_else_ends_the_request() -> None:
    trimmer = StopTrimmer(["\n\nUser:"])
    assert trimmer.push("yes\n\nUs") == "yes"
    assert trimmer.finish(2) == "\n\nUs"


@given(data=st.data(), text=st.text("ab.", max_size=30), stop=st.lists(SMALL, min_size=1, max_size=3))
@settings(max_examples=300, deadline=None)
def test_matcher_finds_the_first_stop_string_of_the_step(data: st.DataObject, text: str, stop: list[str]) -> None:
    matcher = StopMatcher(stop, [])
    seen = ""
    for chunk in chunks(data, text):
        seen += chunk
        expected = next((s for s in stop if s in seen), None)
        assert matcher.push(chunk) == expected
        if expected is not None:
            return


def test_strings_come_before_patterns_in_the_order_of_the_request() -> None:
    assert StopMatcher(["c", "b"], ["a"]).push("abc") == "c"
    assert StopMatcher([], ["x", "b+", "a"]).push("ab") == "b+"
    matcher = StopMatcher(["END"], [r"\d{3}"])
    assert [matcher.push(piece) for piece in ("E", "N 1", "2", "3")] == [None, None, None, r"\d{3}"]


def test_memory_is_bounded_and_anchors_know_the_beginning() -> None:
    matcher = StopMatcher([], ["^ab", r"\bcd"])
    for _ in range(50):
        assert matcher.push("x" * 100) is None
    assert len(matcher._tail) <= REGEX_WINDOW + 1
    assert matcher.push("ab") is None  # not at the beginning of the text
    assert matcher.push("x" * (REGEX_WINDOW - 1)) is None
    assert matcher.push("cd") is None  # the window begins inside a word
    assert StopMatcher([], ["^ab"]).push("ab") == "^ab"


def test_patterns_need_linear_time_and_a_character() -> None:
    for pattern in (r"\n+", "a|b", "(?i)stop", "[0-9]{3}", "é", "a{1,1000}", "(a+)+$x"):
        check_stop_regex(pattern)
    refused = {
        r"(?=a)": "look-around", r"(a)\1": "back-references", "a{2000}": "repetition", "(": r"missing \)",
        "a*": "empty text", "$": "empty text", "\ud800": "surrogates",
    }  # fmt: skip
    for pattern, words in refused.items():
        with pytest.raises(InvalidRequest, match=words) as caught:
            check_stop_regex(pattern)
        assert caught.value.field == "stop_regex"


def test_a_catastrophic_pattern_is_harmless() -> None:
    matcher = StopMatcher([], [r"(a+)+b"])
    assert matcher.push("a" * REGEX_WINDOW) is None
    assert matcher.push("b") == "(a+)+b"
