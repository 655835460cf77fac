"""What a grammar library must offer."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from sglang.grammar.spec import GrammarSpec

MaskRow = npt.NDArray[np.int32]
"""[words]; bit b of word w: token 32·w + b is allowed."""


class Matcher(Protocol):
    """Follows one output. Not thread-safe."""

    def accept(self, token: int) -> bool:
        """Take the next token; False if the grammar does not allow it here."""
        ...

    def fill(self, mask: MaskRow) -> None:
        """Write which tokens may come next, end tokens included where the output may end."""
        ...


class Compiled(Protocol):
    """A grammar ready for use; shared by requests."""

    @property
    def size(self) -> int:
        """Bytes of memory, roughly."""
        ...

    def matcher(self) -> Matcher:
        """A matcher at the beginning. Thread-safe."""
        ...


class Backend(Protocol):
    """One library with one vocabulary."""

    def compile(self, spec: GrammarSpec) -> Compiled:
        """Raises :class:`GrammarError`. Thread-safe; the interpreter lock is free meanwhile."""
        ...
