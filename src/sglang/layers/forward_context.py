"""Everything that a forward pass knows besides weights: handed down as an argument, alive for one step."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sglang.layers.kv_pool import KVPool
from sglang.ops.interface import AttentionPlan, AttentionSpec, BatchRows, Ops

T = TypeVar("T")


class ForwardContext:
    """One step: its tokens, where their keys and values go, and what layers share.

    Arrays are host (numpy) arrays as in ``executor.batch.ForwardBatch``: ``input_ids``, ``positions`` and ``out_slots``
    per token, ``query_lens``, ``seq_lens`` and ``table_rows`` per row, rows end to end. Every row has at least one
    token, a row's tokens are the last ``query_lens[r]`` positions of its context, ``slot_table`` must already hold
    the slots of the new tokens. The arrays are read on first use and must not change while the step runs.
    """

    def __init__(
        self,
        ops: Ops,
        pool: KVPool,
        *,
        input_ids: npt.NDArray[np.int64],
        positions: npt.NDArray[np.int64],
        out_slots: npt.NDArray[np.int64],
        query_lens: npt.NDArray[np.int64],
        seq_lens: npt.NDArray[np.int64],
        table_rows: npt.NDArray[np.int64],
        slot_table: npt.NDArray[np.int32],
    ) -> None:
        self.ops = ops
        self.pool = pool
        self.input_ids = _upload(input_ids, ops.device)  # [T]
        self.positions = _upload(positions, ops.device)  # [T]
        self.out_slots = _upload(out_slots, ops.device)  # [T]
        self.rows = BatchRows(
            query_lens=np.asarray(query_lens, dtype=np.int64),
            seq_lens=np.asarray(seq_lens, dtype=np.int64),
            table_rows=np.asarray(table_rows, dtype=np.int64),
            slot_table=slot_table,
            pad_slot=pool.pad_slot,
        )
        self._shared: dict[Hashable, object] = {}

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """``compute()`` on the first call with ``key`` in this step, the same value afterwards."""
        if key not in self._shared:
            self._shared[key] = compute()
        return cast(T, self._shared[key])

    def attention_plan(self, spec: AttentionSpec) -> AttentionPlan:
        """The plan shared by all layers with the same heads and window as ``spec``."""
        key = ("attention", spec.num_heads, spec.num_kv_heads, spec.head_dim, spec.window)
        return self.once(key, lambda: self.ops.plan_attention(self.rows, spec))


def _upload(array: npt.NDArray[np.int64], device: torch.device) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64)).to(device)
