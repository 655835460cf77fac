"""Reading event streams in tests."""

from __future__ import annotations

import json
from typing import Any


def events(body: str) -> list[Any]:
    """Decoded data of every event; ``[DONE]`` stays a string. Checks the framing."""
    assert body.endswith("\n\n")
    lines = body[:-2].split("\n\n")
    assert all(line.startswith("data: ") and "\n" not in line for line in lines), body
    return [line[6:] if line == "data: [DONE]" else json.loads(line[6:]) for line in lines]


def chunks(body: str) -> list[dict[str, Any]]:
    """The events before ``[DONE]``, which must be the last one."""
    items = events(body)
    assert items[-1] == "[DONE]"
    assert "[DONE]" not in items[:-1]
    return items[:-1]
