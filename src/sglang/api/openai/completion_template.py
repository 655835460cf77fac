"""Fill-in-the-middle templates: how a prompt and the text behind the gap become one prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

MAX_FILE_BYTES = 100_000


@dataclass(frozen=True, slots=True)
class CompletionTemplate:
    """The prompt stands between ``before`` and ``between``, the suffix between ``between`` and ``after``."""

    before: str
    between: str
    after: str

    def fill(self, prompt: str, suffix: str) -> str:
        return f"{self.before}{prompt}{self.between}{suffix}{self.after}"


BUILT_IN: Mapping[str, CompletionTemplate] = MappingProxyType(
    {
        "deepseek_coder": CompletionTemplate("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
        "star_coder": CompletionTemplate("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
        "qwen_coder": CompletionTemplate("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    }
)

_TOKENS = ("fim_begin_token", "fim_middle_token", "fim_end_token")


def load_completion_template(name: str) -> CompletionTemplate:
    """A built-in template by its name, or one from a JSON file.

    The file holds ``fim_begin_token``, ``fim_middle_token``, ``fim_end_token`` and ``fim_position``: "MIDDLE" writes
    begin, prompt, middle, suffix, end; "END" writes begin, prompt, end, suffix, middle. Raises ValueError.
    """
    if (known := BUILT_IN.get(name)) is not None:
        return known
    where = f"--completion-template {name}"
    file = Path(name)
    if not file.is_file():
        raise ValueError(f"{where}: not a file; accepted: {', '.join(BUILT_IN)}, or the path of a JSON file")
    if file.stat().st_size > MAX_FILE_BYTES:
        raise ValueError(f"{where}: larger than {MAX_FILE_BYTES} bytes")
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:  # not UTF-8, or not JSON
        raise ValueError(f"{where}: not valid JSON: {error}") from None
    return _from_json(data, where)


def _from_json(data: Any, where: str) -> CompletionTemplate:
    texts = [text for key in _TOKENS if isinstance(data, dict) and isinstance(text := data.get(key), str)]
    if len(texts) != len(_TOKENS):
        raise ValueError(f"{where}: needs the texts {', '.join(_TOKENS)}, and fim_position")
    begin, middle, end = texts
    position = data.get("fim_position")
    if position == "MIDDLE":
        return CompletionTemplate(begin, middle, end)
    if position == "END":
        return CompletionTemplate(begin, end, middle)
    raise ValueError(f"{where}: fim_position must be MIDDLE or END, got {position!r}")
