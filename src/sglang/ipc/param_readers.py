"""Readers of single JSON values: each takes (value, field name) and returns it typed, or says what is wrong with it.

Wrong types raise SchemaError in the wording of serde, which clients of this API know; values out of range raise
InvalidRequest with the field, the range and the value. Nothing here raises anything else, whatever the value is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from sglang.ipc.errors import InvalidRequest, SchemaError

Reader = Callable[[Any, str], Any]

INT64_MIN = -(1 << 63)
INT64_MAX = (1 << 63) - 1
UINT64_MAX = (1 << 64) - 1
SHOWN_CHARACTERS = 64


def show_text(value: str) -> str:
    """Text fit for an error message: cut to a few words, and encodable even if it holds lone surrogates."""
    cut = value if len(value) <= SHOWN_CHARACTERS else value[:SHOWN_CHARACTERS] + "…"
    return cut.encode("utf-8", "backslashreplace").decode("utf-8")


def show(value: object) -> str:
    """A value as error messages show it, short and harmless."""
    if isinstance(value, str):
        return json.dumps(show_text(value), ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if value.bit_length() <= 128 else f"an integer of {value.bit_length()} bits"
    if isinstance(value, float):
        return repr(float(value))
    return _kind(value)


def _kind(value: object) -> str:
    """What serde would call the value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean `{show(value)}`"
    if isinstance(value, int):
        return f"integer `{show(value)}`"
    if isinstance(value, float):
        return f"floating point `{show(value)}`"
    if isinstance(value, str):
        return f"string {show(value)}"
    if isinstance(value, Mapping):
        return "map"
    if isinstance(value, (list, tuple)):
        return "sequence"
    return f"Python object of class {type(value).__name__}"


def wrong_type(value: object, expected: str, name: str) -> SchemaError:
    return SchemaError(f"invalid type: {_kind(value)}, expected {expected} in `{name}`", field=name)


def out_of_range(name: str, accepted: str, value: object, field: str | None = None) -> InvalidRequest:
    return InvalidRequest(f"{name} must be {accepted}, got {show(value)}", field=field or name)


def integer(value: Any, name: str) -> int:
    """A 64-bit signed integer; booleans and whole floats are none."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(value, "i64", name)
    if not INT64_MIN <= value <= INT64_MAX:
        raise SchemaError(f"invalid value: integer `{show(value)}`, expected i64 in `{name}`", field=name)
    return int(value)


def number(value: Any, name: str) -> float:
    """A finite float; integers are accepted, booleans are not."""
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        raise out_of_range(name, "a finite number", value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(value, "f64", name)
    if not INT64_MIN <= value <= UINT64_MAX:
        raise SchemaError(f"invalid value: integer `{show(value)}`, expected f64 in `{name}`", field=name)
    return float(value)


def boolean(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise wrong_type(value, "a boolean", name)
    return value


def text(value: Any, name: str) -> str:
    """A string that UTF-8 can hold."""
    if not isinstance(value, str):
        raise wrong_type(value, "a string", name)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise out_of_range(name, "valid Unicode without lone surrogates", value) from None
    return str(value)


def mapping(value: Any, name: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a map", name)
    return value


def sequence(value: Any, name: str, expected: str) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise wrong_type(value, expected, name)
    return value


def text_list(value: Any, name: str) -> list[str]:
    return [text(item, name) for item in sequence(value, name, "a sequence of strings")]


def integer_in(low: int, high: int) -> Reader:
    accepted = f"at least {low}" if high == INT64_MAX else f"in [{low}, {high}]"

    def reader(value: Any, name: str) -> int:
        result = integer(value, name)
        if not low <= result <= high:
            raise out_of_range(name, accepted, value)
        return result

    return reader


def number_in(low: float, high: float, *, low_open: bool = False) -> Reader:
    accepted = f"in {'(' if low_open else '['}{low:g}, {high:g}]"

    def reader(value: Any, name: str) -> float:
        result = number(value, name)
        if not low <= result <= high or (low_open and result == low):
            raise out_of_range(name, accepted, value)
        return result

    return reader


def texts(max_count: int, max_bytes: int, what: str) -> Reader:
    """One string or a list of them, none of them empty: an empty one would match before the first token."""

    def reader(value: Any, name: str) -> list[str]:
        if isinstance(value, str):
            value = [value]
        items = sequence(value, name, "a string or a sequence of strings")
        if len(items) > max_count:
            raise InvalidRequest(f"{name}: at most {max_count} {what} are allowed, got {len(items)}", field=name)
        result = [text(item, name) for item in items]
        for item in result:
            if not item:
                raise InvalidRequest(f'{name}: {what} must not be empty, got ""', field=name)
            if len(item.encode()) > max_bytes:
                raise InvalidRequest(
                    f"{name}: {what} may have at most {max_bytes} UTF-8 bytes, got {len(item.encode())}", field=name
                )
        return result

    return reader


def flat_map(value: Any, name: str) -> dict[str, Any]:
    """A map whose values are scalars, lists of scalars or maps of scalars."""
    return {text(key, name): _flat_value(item, name) for key, item in mapping(value, name).items()}


def _flat_value(value: Any, name: str) -> Any:
    if isinstance(value, (list, tuple)):
        return [_scalar(item, name) for item in value]
    if isinstance(value, Mapping):
        return {text(key, name): _scalar(item, name) for key, item in value.items()}
    return _scalar(value, name)


def _scalar(value: Any, name: str) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return text(value, name)
    if isinstance(value, int):
        return integer(value, name)
    if isinstance(value, float):
        return number(value, name)
    raise InvalidRequest(f"{name} takes scalars, flat lists and flat maps, got a nested {_kind(value)}", field=name)
