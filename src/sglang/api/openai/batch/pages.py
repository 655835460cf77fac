"""Lists in pieces, as clients page through them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import Request

from sglang.api.openai.wrapped import wrapped_error


def limit_of(request: Request, default: int, most: int) -> int:
    given = request.query_params.get("limit", str(default))
    if not given.isascii() or not given.isdigit() or not 1 <= int(given[:9]) <= most:
        raise wrapped_error(f"limit: must be an integer from 1 to {most}, got {given[:40]!r}", 400, "limit")
    return int(given)


def page(items: Sequence[dict[str, Any]], limit: int, after: str | None) -> dict[str, Any]:
    """``limit`` items behind the one with id ``after``; an unknown id raises ApiError."""
    start = 0
    if after:
        start = next((at for at, item in enumerate(items, 1) if item["id"] == after), -1)
        if start < 0:
            raise wrapped_error(f"after: there is no {after[:80]!r}", 400, "after")
    shown = items[start : start + limit]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": start + limit < len(items),
    }
