"""Fill-in-the-middle templates: the built-in ones and files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sglang.api.openai.completion_template import load_completion_template

TOKENS = {"fim_begin_token": "[B]", "fim_middle_token": "[M]", "fim_end_token": "[E]"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deepseek_coder", "<｜fim▁begin｜>p<｜fim▁hole｜>s<｜fim▁end｜>"),
        ("star_coder", "<fim_prefix>p<fim_suffix>s<fim_middle>"),
        ("qwen_coder", "<|fim_prefix|>p<|fim_suffix|>s<|fim_middle|>"),
    ],
)
def test_built_in_templates_are_what_the_models_were_trained_on(name: str, text: str) -> None:
    assert load_completion_template(name).fill("p", "s") == text


@pytest.mark.parametrize(("position", "text"), [("MIDDLE", "[B]p[M]s[E]"), ("END", "[B]p[E]s[M]")])
def test_files_say_where_the_gap_is(tmp_path: Path, position: str, text: str) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"name": "mine", **TOKENS, "fim_position": position}))
    assert load_completion_template(str(file)).fill("p", "s") == text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "fim_begin_token"),
        (TOKENS, "fim_position must be MIDDLE or END"),
        ({**TOKENS, "fim_end_token": None, "fim_position": "END"}, "fim_end_token"),
        (" " * 100_001, "larger than"),
    ],
)
def test_bad_files_say_what_is_missing(tmp_path: Path, content: Any, words: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ValueError, match=words):
        load_completion_template(str(file))


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="deepseek_coder, star_coder, qwen_coder"):
        load_completion_template("codellama")
