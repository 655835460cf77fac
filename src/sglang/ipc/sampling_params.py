"""Sampling parameters: the record that travels, and the one place that checks and normalises what callers send."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from sglang.ipc import param_readers as read
from sglang.ipc.errors import InvalidRequest, UnknownFieldError

TOP_K_ALL = 1 << 30
"""``top_k`` value that means the whole vocabulary."""

MAX_STOP_STRINGS = 32
MAX_STOP_BYTES = 1024
MAX_STOP_REGEX_BYTES = 256
MAX_N = 4096
MAX_LOGIT_BIAS = 100.0
GREEDY_BELOW = 1e-6
GRAMMAR_KINDS = ("json_schema", "regex", "ebnf", "structural_tag")

TOKEN_ID = re.compile(r"-?[0-9]{1,19}", re.ASCII)


class SamplingParams(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Sampling parameters of one request, checked and normalised by :func:`parse_sampling_params`."""

    max_new_tokens: int | None = 128
    """None: as many as the context holds."""
    stop: list[str] = []
    stop_token_ids: list[int] = []
    stop_regex: list[str] = []
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = TOP_K_ALL
    """1: greedy, whatever the other filters say."""
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


def parse_sampling_params(
    raw: Mapping[str, Any] | None, *, vocab_size: int | None, defaults: Mapping[str, Any] | None = None
) -> SamplingParams:
    """Check what a caller sent and normalise it.

    ``null`` stands for "absent" in every field but ``max_new_tokens``, where it means "up to the context length".
    ``defaults`` are the server's or model's own preferences, under the same rules; the caller's values win.
    ``vocab_size`` bounds token ids; None leaves them unchecked. Patterns in ``stop_regex`` are only measured here:
    who compiles them knows whether they are valid.

    Raises:
        SchemaError: a value has the wrong JSON type, or (UnknownFieldError) a name is not known.
        InvalidRequest: a value is out of range, does not fit another one, or is not supported.
    """
    fields: dict[str, Any] = {}
    for source in (defaults, raw):
        if source is not None:
            _read_fields(source, fields)
    _check_together(fields)
    _refuse_unsupported(fields)
    if vocab_size is not None:
        _check_token_ids(fields, vocab_size)
    if fields.get("temperature", 1.0) < GREEDY_BELOW:
        fields["top_k"] = 1
        fields["temperature"] = 1.0
    return SamplingParams(**fields)


def _read_fields(source: Mapping[str, Any], fields: dict[str, Any]) -> None:
    if not isinstance(source, Mapping):
        raise read.wrong_type(source, "struct SamplingParams", "sampling_params")
    for name, value in source.items():
        reader = READERS.get(name) if isinstance(name, str) else None
        if reader is None:
            known = ", ".join(f"`{field}`" for field in READERS)
            shown = read.show_text(name) if isinstance(name, str) else type(name).__name__
            raise UnknownFieldError(f"unknown field `{shown}`, expected one of {known}", field=shown)
        if value is not None:
            fields[name] = reader(value, name)
        elif name == "max_new_tokens":
            fields[name] = None


def _check_together(fields: dict[str, Any]) -> None:
    minimum = fields.get("min_new_tokens", 0)
    maximum = fields.get("max_new_tokens", 128)
    if maximum is not None and minimum > maximum:
        raise InvalidRequest(
            f"min_new_tokens must be in [0, max_new_tokens = {maximum}], got {minimum}", field="min_new_tokens"
        )


def _refuse_unsupported(fields: dict[str, Any]) -> None:
    kinds = [kind for kind in (*GRAMMAR_KINDS, "choice") if fields.get(kind)]
    if len(kinds) > 1:
        raise InvalidRequest(
            f"Only one of {', '.join(GRAMMAR_KINDS)} and choice can be set, got {' and '.join(kinds)}", field=kinds[1]
        )
    if fields.get("watermark"):
        raise InvalidRequest("watermark is not supported yet: leave it out", field="watermark")
    if fields.get("beam_width", 1) > 1:
        raise InvalidRequest(
            f"beam search is not supported yet: leave beam_width out or set it to 1, got {fields['beam_width']}",
            field="beam_width",
        )


def _check_token_ids(fields: dict[str, Any], vocab_size: int) -> None:
    for token in fields.get("logit_bias") or ():
        if not 0 <= token < vocab_size:
            raise InvalidRequest(
                f"logit_bias keys must be token ids in [0, {vocab_size - 1}], got {token}", "logit_bias"
            )
    if "stop_token_ids" in fields:
        # An id outside the vocabulary can never be generated, so it is no error and has no effect.
        fields["stop_token_ids"] = [token for token in fields["stop_token_ids"] if 0 <= token < vocab_size]


def _temperature(value: object, name: str) -> float:
    number = read.number(value, name)
    if number < 0.0:
        raise read.out_of_range(name, "a finite number, at least 0", value)
    return number


def _top_k(value: object, name: str) -> int:
    number = read.integer(value, name)
    if number == -1 or number > TOP_K_ALL:
        return TOP_K_ALL
    if number < 1:
        raise read.out_of_range(name, "-1 (whole vocabulary) or at least 1", value)
    return number


def _stop_token_ids(value: object, name: str) -> list[int]:
    items = read.sequence(value, name, "a sequence of i64")
    return list(dict.fromkeys(read.integer(item, name) for item in items if item is not None))


def _logit_bias(value: object, name: str) -> dict[int, float] | None:
    bias: dict[int, float] = {}
    for key, item in read.mapping(value, name).items():
        token = key if type(key) is int else int(key) if isinstance(key, str) and TOKEN_ID.fullmatch(key) else None
        if token is None or not read.INT64_MIN <= token <= read.INT64_MAX:
            raise InvalidRequest(f"{name} keys must be token ids, got {read.show(key)}", name)
        amount = read.number(item, name)
        if abs(amount) > MAX_LOGIT_BIAS:
            raise read.out_of_range(f"{name}[{token}]", f"in [{-MAX_LOGIT_BIAS:g}, {MAX_LOGIT_BIAS:g}]", item, name)
        bias[token] = amount
    return bias or None


READERS: Mapping[str, read.Reader] = {
    "max_new_tokens": read.integer_in(0, read.INT64_MAX),
    "stop": read.texts(MAX_STOP_STRINGS, MAX_STOP_BYTES, "stop strings"),
    "stop_token_ids": _stop_token_ids,
    "stop_regex": read.texts(MAX_STOP_STRINGS, MAX_STOP_REGEX_BYTES, "stop patterns"),
    "temperature": _temperature,
    "top_p": read.number_in(0.0, 1.0, low_open=True),
    "top_k": _top_k,
    "min_p": read.number_in(0.0, 1.0),
    "frequency_penalty": read.number_in(-2.0, 2.0),
    "presence_penalty": read.number_in(-2.0, 2.0),
    "repetition_penalty": read.number_in(0.0, 2.0, low_open=True),
    "min_new_tokens": read.integer_in(0, read.INT64_MAX),
    "n": read.integer_in(1, MAX_N),
    "json_schema": read.text,
    "regex": read.text,
    "ebnf": read.text,
    "structural_tag": read.text,
    "ignore_eos": read.boolean,
    "skip_special_tokens": read.boolean,
    "spaces_between_special_tokens": read.boolean,
    "no_stop_trim": read.boolean,
    "stream_interval": read.integer_in(1, read.INT64_MAX),
    "logit_bias": _logit_bias,
    "sampling_seed": read.integer,
    "custom_params": read.flat_map,
    "beam_width": read.integer_in(1, read.INT64_MAX),
    "watermark": read.mapping,
    "choice": read.text_list,
}
"""Every known field, in the order in which error texts list them."""
