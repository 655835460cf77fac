"""The operations a model is made of, as a contract that any backend can fulfil.

Every implementation obeys one law, batch invariance: the result for a token depends on that token and its context
alone, bit for bit, whatever else is in the batch, wherever its row lies and however its prompt was cut into steps.

Letters in shapes: T tokens of the step, R rows (requests), H query heads, G key/value heads, D head size.
Floating tensors are in the compute dtype unless said otherwise; tensors are contiguous in their last dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from sglang.formats.raw import RawTensor

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class Weight(Protocol):
    """A matrix in whatever form the backend that packed it prefers. Opaque to everyone else."""

    @property
    def out_features(self) -> int: ...

    @property
    def in_features(self) -> int: ...


@dataclass(frozen=True, slots=True)
class AttentionSpec:
    """What one attention layer does besides its weights."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    scale: float
    """Factor on ``q·k``."""
    window: int | None = None
    """A token sees itself and the ``window - 1`` tokens before it; None = all before it."""
    logit_cap: float | None = None
    """Scores become ``cap * tanh(score / cap)`` before the softmax."""

    def __post_init__(self) -> None:
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"{self.num_heads} query heads can't share {self.num_kv_heads} key/value heads: "
                "the first number must be a multiple of the second"
            )
        if self.window is not None and self.window < 1:
            raise ValueError(f"the attention window is {self.window}; it must be at least 1 (or None for no window)")

    @property
    def group(self) -> int:
        """Query heads per key/value head."""
        return self.num_heads // self.num_kv_heads


@dataclass(frozen=True, slots=True)
class BatchRows:
    """Where the rows of a step lie, on the host. Row r owns ``query_lens[r]`` tokens; rows lie end to end."""

    query_lens: npt.NDArray[np.int64]  # [R] new tokens, at least 1
    seq_lens: npt.NDArray[np.int64]  # [R] context length with the new tokens
    table_rows: npt.NDArray[np.int64]  # [R] row in the slot table
    slot_table: npt.NDArray[np.int32]  # [max rows, max context] KV slot of each position
    pad_slot: int
    """A slot that holds zeros and belongs to nobody: stands in for positions past the end of a row."""


class AttentionPlan(Protocol):
    """Index work of one step, made once and used by all layers of the same kind. Opaque outside its backend."""


class Ops(Protocol):
    """A backend that computes at once. Stateless apart from what it learned about its own kernels.

    A backend that only packs weights, because its steps run elsewhere, may leave the operations out: see
    :class:`sglang.ops.native.NativeOps`.
    """

    @property
    def device(self) -> torch.device: ...

    def pack(self, parts: Sequence[RawTensor], dtype: str) -> Weight:
        """Stack matrices ``[out_i, in]`` into one weight of ``sum(out_i)`` rows on this backend's device."""
        ...

    def upload(self, values: npt.NDArray[np.float32], dtype: str) -> Tensor:
        """Host values as an array of this backend, in its own kind of array, in ``dtype``."""
        ...

    def linear(self, x: Tensor, weight: Weight, bias: Tensor | None = None) -> Tensor:
        """``[T, in] -> [T, out]``: ``x @ weight.T + bias``."""
        ...

    def embedding(self, ids: Tensor, weight: Weight) -> Tensor:
        """int64 ``[T] -> [T, in]``: rows of ``weight``."""
        ...

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """Over the last dimension, computed in float32: ``x / sqrt(mean(x²) + eps) * weight`` (arXiv:1910.07467)."""
        ...

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """``(rms_norm(x + residual), x + residual)``."""
        ...

    def rope(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Rotate ``x`` ``[T, heads, D]`` by ``cos``/``sin`` ``[T, rot/2]`` float32 (arXiv:2104.09864, halves layout).

        Dimension i is paired with i + rot/2; dimensions from rot on pass through.
        """
        ...

    def silu_and_mul(self, x: Tensor) -> Tensor:
        """``[T, 2F] -> [T, F]``: ``silu(first half) * second half``."""
        ...

    def gelu_tanh_and_mul(self, x: Tensor) -> Tensor:
        """``[T, 2F] -> [T, F]``: ``gelu(first half) * second half``, gelu in its tanh form."""
        ...

    def soft_cap(self, x: Tensor, cap: float) -> Tensor:
        """``cap * tanh(x / cap)``."""
        ...

    def store_kv(self, k: Tensor, v: Tensor, k_pool: Tensor, v_pool: Tensor, slots: Tensor) -> None:
        """Write ``k``, ``v`` ``[T, G, D]`` to rows ``slots`` (int64 ``[T]``) of the pools ``[slots, G, D]``."""
        ...

    def plan_attention(self, rows: BatchRows, spec: AttentionSpec) -> AttentionPlan:
        """Prepare the step for layers whose specs have the same heads and window as ``spec``."""
        ...

    def attention(self, q: Tensor, k_pool: Tensor, v_pool: Tensor, plan: AttentionPlan, spec: AttentionSpec) -> Tensor:
        """Causal attention of ``q`` ``[T, H, D]`` over the pools, ``-> [T, H, D]``.

        The step's own keys and values must already be stored. NaN or infinity in one row's context never reaches
        another row.
        """
        ...
