"""What a model says about its tokenizer beyond the vocabulary."""

from __future__ import annotations

from dataclasses import dataclass, field

ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


@dataclass(frozen=True, slots=True)
class TokenizerSettings:
    """Special tokens by role, chat template, and which tokens frame a prompt."""

    special_tokens: dict[str, str] = field(default_factory=dict)
    """Role -> text: bos_token, eos_token, ... as chat templates name them."""
    chat_template: str | None = None
    add_bos: bool | None = None
    """Whether prompts begin with BOS. None: as the tokenizer's own post-processor has it."""
    add_eos: bool | None = None
