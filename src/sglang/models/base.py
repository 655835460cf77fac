"""What a language model is to the executor, and the frame that all families share.

model = load_model(config, model_class(config.architecture), ops)
hidden = model.forward(ctx)                # [T, hidden], final norm applied
logits = model.logits(hidden[last_rows])   # [n, vocab] float32
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from sglang.config.model_config import ModelConfig
from sglang.layers.decoder import Block, enter
from sglang.layers.linear import Embedding, OutputHead
from sglang.layers.norm import RMSNorm
from sglang.layers.rope_frequencies import read_rope
from sglang.layers.rotary import Rotary
from sglang.layers.weight_source import CheckpointRules, WeightSource
from sglang.ops.interface import AttentionSpec

if TYPE_CHECKING:
    from torch import Tensor

    from sglang.layers.forward_context import ForwardContext


class CausalLM:
    """Embedding, blocks, final norm, output head. A family says in ``make_block`` what one of its blocks is.

    A model is built straight from its weights (see ``layers.weight_source``); after that it never changes. It holds
    no state of requests: everything about a step comes in with the context.
    """

    rules: ClassVar[CheckpointRules] = CheckpointRules()
    norm_offset: ClassVar[float] = 0.0
    """Added to stored norm weights (gemma: 1)."""

    def __init__(self, config: ModelConfig, weights: WeightSource) -> None:
        self.config = config
        self.ops = weights.ops
        self.embed = Embedding(
            weights, "model.embed_tokens", config.vocab_size, config.hidden_size, scale=self.embedding_scale()
        )
        self.blocks = self.make_blocks(weights)
        self.norm = self.make_norm(weights, "model.norm", config.hidden_size)
        self.head = self._make_head(weights)

    def forward(self, ctx: ForwardContext) -> Tensor:
        """Final hidden states ``[T, hidden]`` in compute dtype; writes the step's keys and values to ``ctx.pool``."""
        x, residual = self.embed(ctx.input_ids), None
        for block in self.blocks:
            x, residual = block(x, residual, ctx)
        return enter(self.norm, x, residual)[0]

    def logits(self, hidden: Tensor) -> Tensor:
        """``[n, hidden] -> [n, vocab]`` float32."""
        return self.head(hidden)

    # What families fill in -------------------------------------------------------------------------------------------

    def make_blocks(self, weights: WeightSource) -> Sequence[Block]:
        rotary = self.make_rotary(weights)
        return [self.make_block(weights, index, rotary) for index in range(self.config.num_layers)]

    def make_block(self, weights: WeightSource, index: int, rotary: Rotary) -> Block:
        raise NotImplementedError

    def embedding_scale(self) -> float:
        return 1.0

    def logit_cap(self) -> float | None:
        return None

    # What families build with ----------------------------------------------------------------------------------------

    def make_rotary(self, weights: WeightSource, layer_type: str | None = None) -> Rotary:
        settings = read_rope(self.config.hf, self.config.head_dim, layer_type)
        return Rotary(weights, settings, self.config.context_length)

    def make_norm(self, weights: WeightSource, name: str, size: int) -> RMSNorm:
        return RMSNorm(weights, name, size, float(self.config.hf["rms_norm_eps"]), offset=self.norm_offset)

    def attention_spec(
        self, *, scale: float | None = None, window: int | None = None, logit_cap: float | None = None
    ) -> AttentionSpec:
        c = self.config
        return AttentionSpec(
            num_heads=c.num_heads,
            num_kv_heads=c.num_kv_heads,
            head_dim=c.head_dim,
            scale=c.head_dim**-0.5 if scale is None else scale,
            window=window,
            logit_cap=logit_cap,
        )

    def _make_head(self, weights: WeightSource) -> OutputHead:
        """A head in the checkpoint is used even where the config says "tied": some say so by default only."""
        weight = self.embed.weight
        if weights.has("lm_head.weight") or not self.config.tie_word_embeddings:
            weight = weights.matrix([("lm_head.weight", self.config.vocab_size)], self.config.hidden_size)
        return OutputHead(weights.ops, weight, logit_cap=self.logit_cap())
