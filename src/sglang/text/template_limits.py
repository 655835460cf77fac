"""What a template may use up, and the checks in front of operations that can make much out of little."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

MAX_SECONDS = 2.0
"""Processor time of one render, so that a busy machine fails nobody; a real one takes well under a millisecond."""
MAX_STEPS = 1_000_000
"""Loop items, calls and filters of one render."""
MAX_TEXT = 8_000_000
"""Characters of one string, and of the prompt: more than any context holds."""
MAX_TOTAL = 8 * MAX_TEXT
"""Characters and list items that one render may create altogether."""
MAX_NODES = 200_000
"""Values inside a list or mapping that is turned into text."""
MAX_COUNT = 10_000
"""Widths, indents and other counts given to functions that shape text."""
MAX_INT_BITS = 4096
MAX_SOURCE = 200_000

_SHAPING_FILTERS = frozenset(
    {"batch", "center", "indent", "slice", "tojson", "truncate", "urlize", "wordwrap", "round"}
)
_SHAPING_METHODS = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs"})
_NOT_TEXTUAL_FILTERS = frozenset({
    "attr", "batch", "count", "d", "default", "first", "items", "last", "length", "list", "map", "random", "reject",
    "rejectattr", "reverse", "select", "selectattr", "slice",
})  # fmt: skip
_COMPARING_FILTERS = frozenset({"dictsort", "groupby", "max", "min", "sort", "sum", "unique"})
_WIDE_PERCENT = re.compile(r"%[^a-zA-Z%]*(\d{5}|\*)")
_WIDE_BRACES = re.compile(r"\{[^{}]*(\d{5}|\{)")


class TemplateLimitError(RuntimeError):
    """The template asked for more than a chat template ever needs."""


class Budget:
    """What is left for one render."""

    __slots__ = ("_deadline", "_steps", "_total")

    def __init__(self) -> None:
        self._deadline = time.thread_time() + MAX_SECONDS
        self._steps = 0
        self._total = 0

    def tick(self, steps: int = 1) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise TemplateLimitError(f"it takes more than {MAX_STEPS} steps")
        self.check_time()

    def check_time(self) -> None:
        if time.thread_time() > self._deadline:
            raise TemplateLimitError(f"it runs longer than {MAX_SECONDS:g} seconds")

    def charge(self, size: int) -> None:
        """Announce a value of ``size`` characters or items."""
        self._total += size
        if size > MAX_TEXT or self._total > MAX_TOTAL:
            raise TemplateLimitError(f"it builds a value of more than {MAX_TEXT} characters")

    def charged(self, value: Any) -> Any:
        if isinstance(value, (str, bytes, list, tuple, dict)):
            self.charge(len(value))
        return value

    def weigh(self, value: Any, *, texts: bool = True) -> None:
        """Refuse containers that are enormous as a tree, though small in memory (shared parts).

        ``texts``: their strings are going to be copied.
        """
        left = MAX_NODES
        stack = [value]
        while stack:
            item = stack.pop()
            left -= 1
            if isinstance(item, (list, tuple)):
                stack.extend(item[: left + 1])
            elif isinstance(item, Mapping):
                stack.extend(item.values())
            elif texts and isinstance(item, str):
                self.charge(len(item))
            if left < 0:
                raise TemplateLimitError(f"it handles a value with more than {MAX_NODES} parts")


def check_operator(operator: str, left: Any, right: Any, budget: Budget) -> None:
    """Before ``left operator right``."""
    if operator == "+":
        return  # at most the sum of two values already charged
    if operator == "%" and isinstance(left, str):
        if _WIDE_PERCENT.search(left):
            raise TemplateLimitError("it formats with a width that is too large")
        budget.weigh(right)
    elif isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length() * right if operator == "**" else left.bit_length() + right.bit_length()
        if operator != "%" and bits > MAX_INT_BITS:
            raise TemplateLimitError(f"it computes a number of more than {MAX_INT_BITS} bits")
    elif operator == "*":
        for sequence, count in ((left, right), (right, left)):
            if isinstance(sequence, (str, bytes, list, tuple)) and isinstance(count, int):
                budget.charge(len(sequence) * max(count, 0))


def check_method(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], budget: Budget) -> tuple[Any, ...]:
    """Before a call; returns the arguments to use. Concerns methods of strings only."""
    text = getattr(function, "__self__", None)
    if not isinstance(text, (str, bytes)):
        return args
    name = getattr(function, "__name__", "")
    if name in _SHAPING_METHODS:
        _check_counts(args, kwargs)
    elif name == "replace" and len(args) >= 2:
        _check_replace(text, args[0], args[1], budget)
    elif name == "join" and args:
        return (_check_join(args[0], text, budget), *args[1:])
    elif name == "translate":
        raise TemplateLimitError("str.translate is not available in templates")
    return args


def check_format(text: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Before ``text.format(...)``."""
    if _WIDE_BRACES.search(text):
        raise TemplateLimitError("it formats with a width that is too large")
    Budget().weigh([*args, *kwargs.values()])


def check_filter(name: str, value: Any, args: tuple[Any, ...], kwargs: dict[str, Any], budget: Budget) -> Any:
    """Before ``value | name``; returns the value to use."""
    if name in _SHAPING_FILTERS:
        _check_counts(args, kwargs)
    if name == "join":
        separator = args[0] if args else kwargs.get("d", "")
        return _check_join(value, separator, budget)
    if name == "replace":
        old, new = [*args, kwargs.get("old", ""), kwargs.get("new", "")][:2] if len(args) < 2 else args[:2]
        _check_replace(str(value), old, new, budget)
    elif name == "format":
        check_operator("%", str(value), [*args, *kwargs.values()], budget)
    elif name not in _NOT_TEXTUAL_FILTERS and isinstance(value, (list, tuple, dict)):
        budget.weigh(value, texts=name not in _COMPARING_FILTERS)
    return value


def _check_counts(args: Iterable[Any], kwargs: Mapping[str, Any]) -> None:
    for value in (*args, *kwargs.values()):
        size = len(value) if isinstance(value, (str, bytes)) else value
        if isinstance(size, int) and size > MAX_COUNT:
            raise TemplateLimitError(f"it asks for a width or count of {size}, at most {MAX_COUNT} are allowed")


def _check_replace(text: Any, old: Any, new: Any, budget: Budget) -> None:
    if isinstance(new, (str, bytes)) and type(old) is type(text):
        found: int = text.count(old)
        budget.charge(len(text) + found * len(new))


def _check_join(items: Any, separator: Any, budget: Budget) -> Any:
    if isinstance(items, (str, bytes)):
        count = len(items)
    else:
        if not isinstance(items, (list, tuple)):
            items = list(items)
        budget.weigh(items)
        count = len(items)
    budget.charge(count * (len(separator) if isinstance(separator, (str, bytes)) else 1))
    return items


def bounded_join(parts: Iterable[str]) -> str:
    """``"".join`` up to MAX_TEXT characters."""
    parts = list(parts)
    if sum(map(len, parts)) > MAX_TEXT:
        raise TemplateLimitError(f"it builds a text of more than {MAX_TEXT} characters")
    return "".join(parts)


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as chat templates expect it: no HTML escapes, non-ASCII characters as they are."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
