"""About ten thousand tokens of prose that every machine with Python has: the language's own reference manual.

``pydoc_data.topics`` is part of Python's standard library. Its paragraphs are kept, its grammar, tables, lists and
code are not. Another Python brings a slightly different text, so results name its hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import numpy.typing as npt

from sglang.text.tokenizer import load_tokenizer

IntArray = npt.NDArray[np.int64]

SHORTEST_PARAGRAPH = 200
"""Characters; shorter ones are mostly headings and code."""
NOT_PROSE = (" ", "*", "|", "+")
"""How code, lists and tables begin."""


@dataclass(frozen=True)
class Windows:
    """Token ids ``[windows, length]`` with the name and the hash of the text they are from."""

    ids: IntArray
    source: str
    sha256: str

    @property
    def scored(self) -> int:
        """Tokens that are predicted: all but the first of each window."""
        return int(self.ids.shape[0] * (self.ids.shape[1] - 1))


def read_text(file: Path | None) -> tuple[str, str]:
    """(name, text) of ``file``, or of Python's manual."""
    if file is not None:
        return file.name, file.read_text(encoding="utf-8")
    return "pydoc_data.topics", "\n\n".join(dict.fromkeys(_paragraphs()))


def _paragraphs() -> Iterator[str]:
    for name in sorted(topics):
        for paragraph in topics[name].split("\n\n"):
            if len(paragraph) >= SHORTEST_PARAGRAPH and not paragraph.startswith(NOT_PROSE):
                yield " ".join(paragraph.split())


def cut_windows(model: Path, text: str, source: str, count: int, length: int) -> Windows:
    """``count`` stretches of the text, evenly spread, each alone in its context.

    Where the model's prompts begin with BOS, so does every window. Raises ValueError if the text is too short.
    """
    tokenizer = load_tokenizer(model)
    ids = tokenizer.encode(text, add_special_tokens=False)
    start = tokenizer.encode("", add_special_tokens=True)
    body = length - len(start)
    if len(ids) < count * body:
        raise ValueError(f"{source} has {len(ids)} tokens; {count} windows of {length} need {count * body}")
    begins = np.linspace(0, len(ids) - body, count).astype(int)
    rows = [start + ids[begin : begin + body] for begin in begins]
    return Windows(np.array(rows, np.int64), source, hashlib.sha256(text.encode()).hexdigest())
