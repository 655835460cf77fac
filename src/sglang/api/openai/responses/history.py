"""The items of stored conversations: their ids, references to them, and lists of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from sglang.api.openai.wrapped import wrapped_error

Item = dict[str, Any]

MAX_PAGE = 100
DEFAULT_PAGE = 20

_PREFIXES = {
    "message": "msg", "reasoning": "rs", "function_call": "fc", "custom_tool_call": "ctc",
    "function_call_output": "fco", "custom_tool_call_output": "ctco",
}  # fmt: skip


def is_reference(item: Item) -> bool:
    """Whether an item only names another one; the type may be left out."""
    kind = item.get("type")
    return kind == "item_reference" or (kind is None and "id" in item and "role" not in item)


def resolved(items: list[Item], known: Callable[[], Mapping[str, Item]]) -> list[Item]:
    """The items with those in the place of which references stand. ``known`` is asked only if there are any.

    Raises ApiError: 404 for an unknown one.
    """
    if not any(map(is_reference, items)):
        return items
    found = known()
    return [_resolved(item, f"input[{at}]", found) if is_reference(item) else item for at, item in enumerate(items)]


def _resolved(reference: Item, where: str, known: Mapping[str, Item]) -> Item:
    name = reference.get("id")
    if not isinstance(name, str):
        raise wrapped_error(f"{where}.id: must be the id of a stored item", 400, "input")
    if name not in known:
        text = f"{where}.id: no item {name[:100]!r}; accepted: ids of items of stored responses"
        raise wrapped_error(text, 404, "input")
    return known[name]


def with_ids(items: list[Item]) -> list[Item]:
    """Every item with an id to refer to."""
    return [item if isinstance(item.get("id"), str) else {**item, "id": _new_id(item)} for item in items]


def _new_id(item: Item) -> str:
    prefix = _PREFIXES.get(str(item.get("type", "message")), "item")
    return f"{prefix}_{uuid.uuid4().hex}"


def page(items: list[Item], query: Mapping[str, str]) -> dict[str, Any]:
    """A part of a list, newest first unless ``order`` says otherwise. Raises ApiError for a bad query."""
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise wrapped_error(f"order: must be asc or desc, got {order[:40]!r}", 400, "order")
    limit = query.get("limit", str(DEFAULT_PAGE))
    if not (limit.isascii() and limit.isdecimal() and len(limit) < 5 and 1 <= int(limit) <= MAX_PAGE):
        raise wrapped_error(f"limit: must be an integer from 1 to {MAX_PAGE}, got {limit[:40]!r}", 400, "limit")
    listed = items if order == "asc" else items[::-1]
    if (after := query.get("after")) is not None:
        places = [at for at, item in enumerate(listed) if item["id"] == after]
        if not places:
            raise wrapped_error(f"after: no item {after[:100]!r} in this list", 400, "after")
        listed = listed[places[0] + 1 :]
    data = [_shown(item) for item in listed[: int(limit)]]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": len(listed) > int(limit),
    }


def _shown(item: Item) -> Item:
    """An item as lists show it: a message's text as parts."""
    shown = {"type": "message", "status": "completed", **item}
    if shown["type"] == "message" and isinstance(shown.get("content"), str):
        kind = "output_text" if shown.get("role") == "assistant" else "input_text"
        part = {"type": kind, "text": shown["content"], **({"annotations": []} if kind == "output_text" else {})}
        shown["content"] = [part]
    return shown
