"""Checks of flag values: types, choices, ranges, combinations, and what is not built yet. No I/O."""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
import warnings
from typing import Any

from sglang.config.args.declare import default_of, spec_of
from sglang.config.args.groups import AllArgs

# Smallest and largest value of numbers (None: no bound). ``None`` values pass; they mean "choose for me".
RANGES: dict[str, tuple[float | None, float | None]] = {
    "port": (0, 65535),
    "context_length": (1, None),
    "stream_interval": (1, None),
    "tokenizer_worker_num": (1, None),
    "detokenizer_worker_num": (1, None),
    "mem_fraction_static": (0.01, 1.0),
    "max_total_tokens": (1, None),
    "page_size": (1, None),
    "max_running_requests": (1, None),
    "max_queued_requests": (0, None),
    "max_prefill_tokens": (1, None),
    "prefill_max_requests": (1, None),
    "priority_scheduling_preemption_threshold": (0, None),
    "schedule_conservativeness": (0.0, None),
    "random_seed": (0, 2**63 - 1),
    "watchdog_timeout": (0.0, None),
    "decode_log_interval": (1, None),
    "max_loras_per_batch": (1, None),
    "constrained_json_max_whitespace_cnt": (1, None),
}

LOG_LEVELS = ("debug", "info", "warning", "error", "critical")
DEVICES = ("auto", "cpu")


class ServerArgsError(ValueError):
    """A flag has a value that can't be served. ``field`` names it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class NoEffectWarning(UserWarning):
    """A flag was accepted for compatibility and does nothing yet."""


def flag_name(field: str) -> str:
    """``max_total_tokens`` → ``--max-total-tokens``."""
    return "--" + field.replace("_", "-")


@functools.cache
def field_types() -> dict[str, tuple[type, type | None, bool]]:
    """For each field: its type, the type of its items (lists only), and whether None is allowed."""
    return {name: _unpack(hint) for name, hint in typing.get_type_hints(AllArgs).items()}


def _unpack(hint: Any) -> tuple[type, type | None, bool]:
    optional = False
    if isinstance(hint, types.UnionType):
        members = [member for member in typing.get_args(hint) if member is not type(None)]
        optional, hint = True, members[0]
    origin = typing.get_origin(hint)
    if origin is None:
        return hint, None, optional
    item = typing.get_args(hint)[0] if origin is list else None
    return origin, item if isinstance(item, type) else None, optional


def check_args(args: AllArgs) -> None:
    """Raise :class:`ServerArgsError` for the first value that can't be served."""
    for field in dataclasses.fields(args):
        value = getattr(args, field.name)
        _check_type(field.name, value)
        _check_json_text(field, value)
        _check_choice(field, value)
        _check_built(field, value)
    for name, (low, high) in RANGES.items():
        _check_range(name, getattr(args, name), low, high)
    _check_combinations(args)


def warn_without_effect(args: AllArgs) -> None:
    """Warn for each changed flag that does nothing yet (Python's warning filter shows each text once)."""
    for field in dataclasses.fields(args):
        spec = spec_of(field)
        value = getattr(args, field.name)
        if spec.support == "ignored" and value != default_of(field) and value not in spec.harmless:
            shown = "" if isinstance(value, bool) or spec.secret else f" {value}"
            warnings.warn(
                f"{flag_name(field.name)}{shown} is accepted but has no effect yet ({spec.help}).",
                NoEffectWarning,
                stacklevel=4,  # the line that builds the ServerArgs
            )


def _check_type(name: str, value: Any) -> None:
    kind, item, optional = field_types()[name]
    if value is None and optional:
        return
    if not _is_a(value, kind):
        wanted = f"{kind.__name__} or None" if optional else kind.__name__
        raise ServerArgsError(name, f"{name}={value!r} is a {type(value).__name__}; give a value of type {wanted}.")
    if item is not None:
        for entry in value:
            if not _is_a(entry, item):
                raise ServerArgsError(name, f"{name} holds {entry!r}; give a list of {item.__name__} values.")


def _is_a(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


def _check_json_text(field: dataclasses.Field[Any], value: Any) -> None:
    if not (spec_of(field).json and isinstance(value, str)):
        return
    try:
        json.loads(value)
    except ValueError as error:
        raise ServerArgsError(
            field.name, f"{flag_name(field.name)} takes a JSON text, got {value!r}: {error}."
        ) from None


def _check_choice(field: dataclasses.Field[Any], value: Any) -> None:
    choices = spec_of(field).choices
    if choices and value is not None and value not in choices:
        raise ServerArgsError(
            field.name, f"{flag_name(field.name)} {value} is not known; choose one of: {', '.join(choices)}."
        )


def _check_built(field: dataclasses.Field[Any], value: Any) -> None:
    spec = spec_of(field)
    if spec.support != "later" or value in spec.harmless or value == default_of(field):
        return
    shown = flag_name(field.name) if isinstance(value, bool) else f"{flag_name(field.name)} {value}"
    raise ServerArgsError(
        field.name,
        f"{shown} is not supported yet ({spec.help}). It is refused because ignoring it would change what you get; "
        "leave it out.",
    )


def _check_range(name: str, value: Any, low: float | None, high: float | None) -> None:
    if value is None or ((low is None or value >= low) and (high is None or value <= high)):
        return
    bounds = f"between {low} and {high}" if low is not None and high is not None else f"at least {low}"
    raise ServerArgsError(name, f"{flag_name(name)} {value} is out of range; give a value {bounds}.")


def _check_combinations(args: AllArgs) -> None:
    if args.chunked_prefill_size is not None and args.chunked_prefill_size < 1 and args.chunked_prefill_size != -1:
        raise ServerArgsError(
            "chunked_prefill_size",
            f"--chunked-prefill-size {args.chunked_prefill_size} is out of range; give a positive number of tokens, "
            "or -1 for whole prompts.",
        )
    for name in ("log_level", "log_level_http"):
        level = getattr(args, name)
        if level is not None and level.lower() not in LOG_LEVELS:
            raise ServerArgsError(
                name, f"{flag_name(name)} {level} is not known; choose one of: {', '.join(LOG_LEVELS)}."
            )
    if args.device is not None and args.device not in DEVICES:
        raise ServerArgsError(
            "device", f"--device {args.device} is not supported yet; this server runs on: {', '.join(DEVICES)}."
        )
    if bool(args.ssl_keyfile) != bool(args.ssl_certfile):
        missing = "ssl_certfile" if args.ssl_keyfile else "ssl_keyfile"
        raise ServerArgsError(
            missing, f"TLS needs both --ssl-keyfile and --ssl-certfile; {flag_name(missing)} is missing."
        )
    if args.tokenizer_worker_num > 1 and (args.api_key or args.admin_api_key):
        raise ServerArgsError("tokenizer_worker_num", "--tokenizer-worker-num above 1 can't be combined with API keys.")
    for name in ("api_key", "admin_api_key"):
        if getattr(args, name) == "":
            raise ServerArgsError(name, f"{flag_name(name)} is empty; give a key, or leave the flag out for no key.")
