"""The input of a batch: one request a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

MAX_REQUESTS = 50_000
MAX_PROBLEMS = 100
"""Listed for one file; the first ones tell enough."""
MAX_CUSTOM_ID = 512

Problem = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BatchRequest:
    custom_id: str
    body: dict[str, Any]


class LineError(Exception):
    """A line that is no request."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param


def check_lines(path: Path, endpoint: str) -> tuple[int, list[Problem]]:
    """How many requests a file holds, and what is wrong with it."""
    problems: list[Problem] = []
    seen: set[str] = set()
    count = 0
    for number, line in _lines(path):
        count += 1
        if count > MAX_REQUESTS:
            problems.append(_problem("too_many_requests", f"more than {MAX_REQUESTS} requests", None, number))
            break
        try:
            request = parse_line(line, endpoint)
            if request.custom_id in seen:
                raise LineError("duplicate_custom_id", f"custom_id {request.custom_id!r} appears twice", "custom_id")
            seen.add(request.custom_id)
        except LineError as error:
            problems.append(_problem(error.code, str(error), error.param, number))
            if len(problems) >= MAX_PROBLEMS:
                break
    if count == 0:
        problems.append(_problem("empty_file", "the input file holds no request", None, None))
    return count, problems


def read_requests(path: Path, endpoint: str) -> Iterator[BatchRequest]:
    """The requests of a file that :func:`check_lines` has approved."""
    for _, line in _lines(path):
        yield parse_line(line, endpoint)


def parse_line(line: bytes, endpoint: str) -> BatchRequest:
    """Raises LineError."""
    try:
        data = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise LineError("invalid_json_line", f"not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise LineError("invalid_json_line", "must be a JSON object")
    name = data.get("custom_id")
    if not isinstance(name, str) or not 0 < len(name) <= MAX_CUSTOM_ID:
        raise LineError("invalid_custom_id", f"must be a string of 1 to {MAX_CUSTOM_ID} characters", "custom_id")
    if data.get("method") != "POST":
        raise LineError("invalid_method", "must be POST", "method")
    if data.get("url") != endpoint:
        raise LineError("mismatched_url", f"must be the batch's endpoint, {endpoint}", "url")
    body = data.get("body")
    if not isinstance(body, dict):
        raise LineError("invalid_body", "must be a JSON object", "body")
    for field in ("stream", "background"):
        if body.get(field):
            raise LineError("invalid_body", f"{field} has no place in a batch", f"body.{field}")
    return BatchRequest(name, body)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line := line.strip():
                yield number, line


def _problem(code: str, message: str, param: str | None, line: int | None) -> Problem:
    return {"code": code, "message": message, "param": param, "line": line}
