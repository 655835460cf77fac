"""Which KV slot holds which position of which running request."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class SlotTable:
    """``table[row, position]`` = slot; a row belongs to one request at a time."""

    def __init__(self, rows: int, context: int) -> None:
        self.table: npt.NDArray[np.int32] = np.zeros((rows, context), np.int32)
        self._free: list[int] = []
        self.reset()

    def reset(self) -> None:
        """Take all rows back."""
        self._free = list(range(len(self.table) - 1, -1, -1))

    @property
    def free_rows(self) -> int:
        return len(self._free)

    def take_row(self) -> int:
        """A free row. The caller has checked that there is one."""
        return self._free.pop()

    def give_back(self, row: int) -> None:
        self._free.append(row)
