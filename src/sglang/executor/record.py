"""A model, as built from layers, becomes one native program: every step is then a single call.

The program is recorded by reading the structure of the model's blocks, so families need not know of it; what the
kernels can't express raises NotRecordable.
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from sglang.layers.attention import Attention
from sglang.layers.decoder import PreNormBlock, SandwichBlock
from sglang.layers.linear import Linear
from sglang.layers.mlp import GatedMLP
from sglang.layers.norm import RMSNorm
from sglang.models.base import CausalLM
from sglang.ops.native import NativeOps, NativeWeight, NotRecordable

NONE = -1
"""Stands for a buffer that isn't wanted."""
LANES = 32
"""Int8 activations come in groups of this many."""

GATES = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh"}

CENTERED = ("normed", "inner")
"""Activations that lean to one side within a block: rounded around its middle they lose two to three times less. What
attention gives out gains nothing by it."""

Handles = tuple[int, int]
"""The same values as floats and as int8 blocks; NONE where a form isn't needed."""


class Recorder:
    """Writes one program. Buffers are shared by all blocks: a step's values live only until the next block."""

    def __init__(self, model: CausalLM, ops: NativeOps, slots: int, kv_dtype: str, max_tokens: int) -> None:
        c = model.config
        self.kernels = ops.kernels
        self.pools = [self.kernels.KvPool(slots, c.num_kv_heads, c.head_dim, kv_dtype) for _ in range(c.num_layers)]
        self.program = self.kernels.Program(max_tokens, c.vocab_size)
        self._buffers: dict[tuple[str, int], int] = {}
        self._x = self._floats("x", c.hidden_size)
        self._eps = 0.0
        self._pending: tuple[int, RMSNorm | None] | None = None
        """What the last sub-block wants to add to x, with the norm it passes first."""
        self._record(model)

    def _record(self, model: CausalLM) -> None:
        self.program.add_embedding(_single(model.embed.weight), float(model.embed.scale), self._x)
        for block in model.blocks:
            if isinstance(block, PreNormBlock):
                self._block(block, None, None)
            elif isinstance(block, SandwichBlock):
                self._block(block, block.attention_out_norm, block.mlp_out_norm)
            else:
                raise NotRecordable(f"blocks of the kind {type(block).__name__}")
        self._settle(model.norm)
        head = _single(model.head.weight)
        self.program.add_head(self._x, model.norm.weight, model.norm.eps, head, float(model.head.logit_cap or 0.0))

    def _block(
        self, block: PreNormBlock | SandwichBlock, attention_out: RMSNorm | None, mlp_out: RMSNorm | None
    ) -> None:
        self._attention(block.input_norm, block.attention, attention_out)
        if not isinstance(block.mlp, GatedMLP):
            raise NotRecordable(f"feed-forward layers of the kind {type(block.mlp).__name__}")
        self._mlp(block.mlp_norm, block.mlp, mlp_out)

    def _attention(self, norm: RMSNorm, layer: Attention, out_norm: RMSNorm | None) -> None:
        spec, pool = layer.spec, self.pools[layer.layer]
        qkv = self._floats("qkv", sum(layer.sizes))
        normed = self._norm(norm, layer.qkv)
        self._linear(normed, layer.qkv, qkv)
        head_norm = layer.q_norm or layer.k_norm
        self.program.add_rope_store(
            qkv,
            spec.num_heads,
            pool,
            layer.rotary.cos,
            layer.rotary.sin,
            q_norm=None if layer.q_norm is None else layer.q_norm.weight,
            k_norm=None if layer.k_norm is None else layer.k_norm.weight,
            eps=1e-6 if head_norm is None else head_norm.eps,
        )
        wanted = _forms(layer.out)
        attended = (self._floats("attended", layer.sizes[0]), self._blocks("attended", layer.sizes[0], wanted))
        self.program.add_attention(
            qkv, spec.num_heads, pool, spec.scale, float(spec.logit_cap or 0.0), spec.window or 0, attended
        )
        self._leave(attended, layer.out, out_norm)

    def _mlp(self, norm: RMSNorm, layer: GatedMLP, out_norm: RMSNorm | None) -> None:
        gate, up = _halves(layer.gate_up)
        bias = layer.gate_up.bias
        biases = (None, None) if bias is None else (bias[: gate.n], bias[gate.n :])
        normed = self._norm(norm, layer.gate_up)
        inner = self._handles("inner", int(gate.n), layer.down)
        self.program.add_gated_linear(normed, gate, up, GATES[layer.activation], inner, *biases)
        self._leave(inner, layer.down, out_norm)

    def _leave(self, values: Handles, out: Linear, out_norm: RMSNorm | None) -> None:
        """Project back and add to x: at once, or with the next norm where a norm comes between."""
        if out_norm is None:
            self._linear(values, out, self._x, accumulate=True)
            return
        delta = self._floats("delta", out.weight.out_features)
        self._linear(values, out, delta)
        self._pending = delta, out_norm

    def _norm(self, norm: RMSNorm, reader: Linear) -> Handles:
        """x, after what is still to be added, normalised in the forms that ``reader`` takes."""
        out = self._handles("normed", reader.weight.in_features, reader)
        self._add_norm(norm, out)
        return out

    def _settle(self, norm: RMSNorm) -> None:
        """Add what is left to x; the head does the last norm itself."""
        if self._pending is not None:
            self._add_norm(norm, (NONE, NONE))

    def _add_norm(self, norm: RMSNorm, out: Handles) -> None:
        addend, addend_norm = self._pending or (NONE, None)
        self._pending = None
        weight, eps = (None, norm.eps) if addend_norm is None else (addend_norm.weight, addend_norm.eps)
        self.program.add_norm(self._x, norm.weight, norm.eps, out, addend, weight, eps)

    def _linear(self, values: Handles, layer: Linear, out: int, *, accumulate: bool = False) -> None:
        parts, column = [], 0
        for weight in _native(layer.weight).parts:
            bias = None if layer.bias is None else layer.bias[column : column + weight.n]
            parts.append((weight, bias, column))
            column += weight.n
        self.program.add_linear(values, parts, out, accumulate)

    def _handles(self, name: str, width: int, reader: Linear) -> Handles:
        floats, blocks = wanted = _forms(reader)
        return (self._floats(name, width) if floats else NONE, self._blocks(name, width, wanted) if blocks else NONE)

    def _floats(self, name: str, width: int) -> int:
        return self._buffer(name, width, self.program.add_floats)

    def _blocks(self, name: str, width: int, wanted: tuple[bool, bool]) -> int:
        if not wanted[1]:
            return NONE
        if width % LANES:
            raise NotRecordable(f"quantized matrices of depth {width}, which is no multiple of {LANES}")
        return self._buffer(f"{name} blocks", width, partial(self.program.add_blocks, centered=name in CENTERED))

    def _buffer(self, name: str, width: int, make: Any) -> int:
        key = (name, width)
        if key not in self._buffers:
            self._buffers[key] = make(width)
        return self._buffers[key]


def _forms(reader: Linear) -> tuple[bool, bool]:
    """Whether the matrices of ``reader`` take floats, and whether they take int8 blocks."""
    parts = _native(reader.weight).parts
    return any(not part.quantized for part in parts), any(part.quantized for part in parts)


def _halves(layer: Linear) -> tuple[Any, Any]:
    """Gate and up: two matrices, or the halves of one."""
    parts = _native(layer.weight).parts
    if len(parts) == 2:
        return parts[0], parts[1]
    half = parts[0].n // 2
    try:
        return parts[0].slice(0, half), parts[0].slice(half, parts[0].n)
    except ValueError as error:
        raise NotRecordable(f"gate and up projections in one matrix: {error}") from None


def _single(weight: object) -> Any:
    return _native(weight).parts[0]


def _native(weight: object) -> NativeWeight:
    return cast(NativeWeight, weight)
