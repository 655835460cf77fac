"""Sampling parameters: the record, and the one place that checks and normalises them."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from sglang.ipc.errors import InvalidRequest, SchemaError, UnknownFieldError

TOP_K_ALL = 1 << 30
"""``top_k`` value that means the whole vocabulary."""

MAX_STOP_STRINGS = 32
MAX_STOP_REGEX_BYTES = 256
MAX_N = 4096
GREEDY_BELOW = 1e-6
GRAMMAR_KINDS = ("json_schema", "regex", "ebnf", "structural_tag")


class SamplingParams(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Sampling parameters of one request, checked and normalised by :func:`parse_sampling_params`."""

    max_new_tokens: int | None = 128
    stop: list[str] = []
    stop_token_ids: list[int] = []
    stop_regex: list[str] = []
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = TOP_K_ALL
    min_p: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    min_new_tokens: int = 0
    n: int = 1
    beam_width: int | None = None
    json_schema: str | None = None
    regex: str | None = None
    ebnf: str | None = None
    structural_tag: str | None = None
    choice: list[str] = []
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    no_stop_trim: bool = False
    stream_interval: int | None = None
    logit_bias: dict[int, float] | None = None
    sampling_seed: int | None = None
    custom_params: dict[str, Any] | None = None
    watermark: dict[str, Any] | None = None

    @property
    def is_greedy(self) -> bool:
        return self.top_k == 1

    @property
    def has_penalties(self) -> bool:
        return self.frequency_penalty != 0.0 or self.presence_penalty != 0.0 or self.repetition_penalty != 1.0
