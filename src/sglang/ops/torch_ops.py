"""The reference backend: plain torch on any device, written to be read and to be batch invariant.

torch's elementwise kernels treat the last few elements of a tensor apart. For exp, tanh and rsqrt the results are the
same; for sigmoid, silu and gelu they are not, so those are spelled out with the former.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from sglang.formats.ggml_types import GGMLType
from sglang.formats.raw import RawTensor
from sglang.ops.interface import AttentionPlan, AttentionSpec, BatchRows, Weight
from sglang.ops.row_tiles import agreeing_tiles, tiled
from sglang.ops.torch_attention import block_matmul, run_attention
from sglang.ops.torch_plan import TILE_TOKENS, TorchAttentionPlan, plan_attention

DTYPES: Mapping[str, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
STORED: Mapping[GGMLType, torch.dtype] = {
    GGMLType.F32: torch.float32,
    GGMLType.BF16: torch.bfloat16,
    GGMLType.F16: torch.float16,
}
"""Storage types that are torch's own: such tensors needn't be expanded."""

LINEAR_TILES = (1, 4, 8, 16, 32, 64, 128)
LARGE_LINEAR_TILES = (1, 4, 8, 16, 32)
"""For output heads over a large vocabulary: keeps the probe short and the padded logits small."""
LARGE_OUT_FEATURES = 32768


@dataclass(frozen=True, slots=True)
class TorchWeight:
    """A dense matrix ``[out, in]`` in the compute dtype."""

    data: Tensor

    @property
    def out_features(self) -> int:
        return int(self.data.shape[0])

    @property
    def in_features(self) -> int:
        return int(self.data.shape[1])


class TorchOps:
    """See :class:`sglang.ops.interface.Ops` for what each operation promises."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._linear_tiles: dict[tuple[int, int, torch.dtype], tuple[int, ...]] = {}
        self._head_rows: dict[tuple[int, int], int] = {}

    def pack(self, parts: Sequence[RawTensor], dtype: str) -> TorchWeight:
        """Quantized parts are expanded here: this backend knows dense matrices only."""
        rows = sum(part.shape[0] for part in parts)
        data = torch.empty(rows, parts[0].shape[1], dtype=DTYPES[dtype], device=self.device)
        start = 0
        for part in parts:
            data[start : start + part.shape[0]] = _values(part)
            start += part.shape[0]
        return TorchWeight(data)

    def upload(self, values: npt.NDArray[np.float32], dtype: str) -> Tensor:
        return torch.from_numpy(values.copy()).to(device=self.device, dtype=DTYPES[dtype])

    def linear(self, x: Tensor, weight: Weight, bias: Tensor | None = None) -> Tensor:
        matrix = _dense(weight)
        y = tiled(lambda rows: F.linear(rows, matrix), x, matrix.shape[0], self._tiles_for(matrix))
        return y if bias is None else y.add_(bias)

    def embedding(self, ids: Tensor, weight: Weight) -> Tensor:
        return _dense(weight).index_select(0, ids)

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + eps)
        return (wide * weight.float()).to(x.dtype)

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        total = x + residual
        return self.rms_norm(total, weight, eps), total

    def rope(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        half = cos.shape[-1]
        first, second = x[..., :half].float(), x[..., half : 2 * half].float()
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)  # the same angles for every head
        turned = torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)
        return turned if 2 * half == x.shape[-1] else torch.cat([turned, x[..., 2 * half :]], dim=-1)

    def silu_and_mul(self, x: Tensor) -> Tensor:
        gate, up = x.float().chunk(2, dim=-1)
        return (-gate).exp_().add_(1.0).reciprocal_().mul_(gate).mul_(up).to(x.dtype)

    def gelu_tanh_and_mul(self, x: Tensor) -> Tensor:
        gate, up = x.float().chunk(2, dim=-1)
        inner = (gate * gate).mul_(0.044715).add_(1.0).mul_(gate).mul_(math.sqrt(2.0 / math.pi))
        return inner.tanh_().add_(1.0).mul_(0.5).mul_(gate).mul_(up).to(x.dtype)

    def soft_cap(self, x: Tensor, cap: float) -> Tensor:
        return (x / cap).tanh_().mul_(cap)

    def store_kv(self, k: Tensor, v: Tensor, k_pool: Tensor, v_pool: Tensor, slots: Tensor) -> None:
        k_pool.index_copy_(0, slots, k.to(k_pool.dtype))
        v_pool.index_copy_(0, slots, v.to(v_pool.dtype))

    def plan_attention(self, rows: BatchRows, spec: AttentionSpec) -> TorchAttentionPlan:
        return plan_attention(rows, spec, self._decode_rows(spec), self.device)

    def attention(self, q: Tensor, k_pool: Tensor, v_pool: Tensor, plan: AttentionPlan, spec: AttentionSpec) -> Tensor:
        if not isinstance(plan, TorchAttentionPlan):
            raise TypeError(f"the torch backend was given a {type(plan).__name__}; plans must come from its own method")
        return run_attention(q, k_pool, v_pool, plan, spec)

    def _tiles_for(self, matrix: Tensor) -> tuple[int, ...]:
        """Row counts that agree for this shape; measured on first use."""
        key = (matrix.shape[0], matrix.shape[1], matrix.dtype)
        if key not in self._linear_tiles:
            candidates = LARGE_LINEAR_TILES if matrix.shape[0] >= LARGE_OUT_FEATURES else LINEAR_TILES
            x = _noise(candidates[-1], matrix.shape[1], device=self.device).to(matrix.dtype)
            self._linear_tiles[key] = agreeing_tiles(lambda rows: F.linear(rows, matrix), x, candidates)
        return self._linear_tiles[key]

    def _decode_rows(self, spec: AttentionSpec) -> int:
        """Rows to pad a decode step's head group to, so that it agrees with a prefill tile of the same heads."""
        key = (spec.group, spec.head_dim)
        if key not in self._head_rows:
            full = TILE_TOKENS * spec.group
            candidates = [m for m in (*LINEAR_TILES, spec.group, full) if spec.group <= m <= full]
            q = _noise(full, spec.head_dim, device=self.device)
            tiles = agreeing_tiles(block_matmul(spec.head_dim, self.device), q, candidates)
            # Where even the full tile is not steady there is nothing better to offer than the full tile.
            self._head_rows[key] = next((m for m in tiles if m >= spec.group), full) if full in tiles else full
        return self._head_rows[key]


def _values(part: RawTensor) -> Tensor:
    if part.kind not in STORED or part.offset:
        return torch.from_numpy(part.dense())
    stored = np.array(part.rows())  # a copy, because torch insists on memory it could write to
    return torch.from_numpy(stored.reshape(-1)).view(STORED[part.kind]).view(part.shape)


def _dense(weight: Weight) -> Tensor:
    if not isinstance(weight, TorchWeight):
        raise TypeError(f"the torch backend was given a {type(weight).__name__}; weights must come from its own pack()")
    return weight.data


def _noise(*shape: int, device: torch.device) -> Tensor:
    """The same random numbers every time, without touching the process-wide generator."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(device)
