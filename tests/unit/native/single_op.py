"""Programs of one operation: write its buffers, run a step, read what it made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from gguf import GGMLQuantizationType, quantize

from sglang.ops.torch_ops import TorchOps

Array = np.ndarray[Any, Any]
VOCAB = 50
OPS = TorchOps(torch.device("cpu"))

DENSE = {"f32": 0, "f16": 1, "bf16": 30}
QUANTIZED = ["int8", "int4", "Q5_0"]


def stored(values: Array, format: str) -> Array:
    """``values`` as bytes of a dense format."""
    if format == "bf16":
        return torch.from_numpy(values).bfloat16().view(torch.uint8).numpy()
    return values.astype({"f32": np.float32, "f16": np.float16}[format]).view(np.uint8)


def pack(native: Any, pool: Any, isa: str, values: Array, format: str) -> tuple[Any, torch.Tensor]:
    """A weight, and the values that it holds."""
    n, k = values.shape
    if format in DENSE:
        weight = native.pack(pool, DENSE[format], stored(values, format), n, k, isa=isa)
    elif format in ("int8", "int4"):
        weight = native.quantize(pool, values, format, isa=isa)
    else:
        kind = GGMLQuantizationType[format]
        weight = native.pack(pool, int(kind), quantize(values, kind), n, k, isa=isa)
    return weight, torch.from_numpy(weight.rows(0, n))


def ints(values: Sequence[int] | Array) -> Array:
    return np.asarray(values, np.int64)


class SingleOp:
    """A program of one operation on buffers that are filled beforehand."""

    def __init__(self, native: Any, pool: Any, isa: str, max_tokens: int = 64, vocab: int = VOCAB) -> None:
        self.pool = pool
        self.program = native.Program(max_tokens, vocab, isa=isa)

    def floats(self, values: Array) -> int:
        """A buffer with values, or of a width when given an array without rows."""
        return self._made(self.program.add_floats, values)

    def blocks(self, values: Array) -> int:
        return self._made(self.program.add_blocks, values)

    def _made(self, make: Callable[[int], int], values: Array) -> int:
        buffer = make(values.shape[1])
        self.program.write(buffer, values)
        return buffer

    def read(self, buffer: int, rows: int) -> torch.Tensor:
        return torch.from_numpy(self.program.read(buffer, rows))

    def run(
        self,
        rows: Sequence[tuple[int, int]],  # (new tokens, context length with them)
        table: Array | None = None,
        ids: Array | None = None,
        outputs: Sequence[int] = (),
        **wanted: Any,
    ) -> dict[str, Array]:
        table = np.zeros((len(rows), 64), np.int32) if table is None else table
        positions = [range(length - new, length) for new, length in rows]
        tokens = sum(new for new, _ in rows)
        result: dict[str, Array] = self.program.run(
            self.pool,
            ints([0] * tokens) if ids is None else ids,
            ints([p for span in positions for p in span]),
            ints([table[r, p] for r, span in enumerate(positions) for p in span]),
            ints([new for new, _ in rows]),
            ints([length for _, length in rows]),
            ints(range(len(rows))),
            table,
            ints(outputs),
            **wanted,
        )
        return result

    def run_tokens(self, tokens: int, **wanted: Any) -> dict[str, Array]:
        """A step of unrelated tokens, for operations that look at no context."""
        return self.run([(1, 1)] * tokens, **wanted)
