"""Answers of a batch while it runs: two files that only grow, so that a restart finds what is done."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from sglang.api.openai.batch.disk import new_name

GOOD = "good.jsonl"
BAD = "bad.jsonl"


class Results:
    """Good answers and errors, one a line. Opening again goes on behind the last whole line."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._good_path = folder / GOOD
        self._bad_path = folder / BAD
        self.done: set[str] = set()
        self.good = 0
        self.bad = 0
        self.input_tokens = 0
        self.output_tokens = 0
        self.cached_tokens = 0
        self.reasoning_tokens = 0
        self._files: dict[Path, BinaryIO] = {path: self._open(path) for path in (self._good_path, self._bad_path)}

    def add(self, custom_id: str, status: int, body: Any, request_id: str) -> None:
        """An answer of the server, good or bad."""
        response = {"status_code": status, "request_id": request_id, "body": body}
        self._write(self._good_path if status == 200 else self._bad_path, custom_id, response, None)

    def add_error(self, custom_id: str, code: str, message: str) -> None:
        """A request that was never sent."""
        self._write(self._bad_path, custom_id, None, {"code": code, "message": message})

    def _write(self, path: Path, custom_id: str, response: Any, error: Any) -> None:
        line = {"id": new_name("batch_req"), "custom_id": custom_id, "response": response, "error": error}
        file = self._files[path]
        file.write(orjson.dumps(line) + b"\n")
        file.flush()
        self._count(path, line)

    def close(self) -> None:
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()

    def usage(self) -> dict[str, Any]:
        return {
            "input_tokens": self.input_tokens,
            "input_tokens_details": {"cached_tokens": self.cached_tokens},
            "output_tokens": self.output_tokens,
            "output_tokens_details": {"reasoning_tokens": self.reasoning_tokens},
            "total_tokens": self.input_tokens + self.output_tokens,
        }

    def _open(self, path: Path) -> BinaryIO:
        end = 0
        if path.exists():
            with path.open("rb") as file:
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # cut by a crash
                    end += len(line)
                    self._count(path, orjson.loads(line))
        appending = path.open("ab")
        appending.truncate(end)
        return appending

    def _count(self, path: Path, line: dict[str, Any]) -> None:
        self.done.add(line["custom_id"])
        if path == self._bad_path:
            self.bad += 1
            return
        self.good += 1
        usage = line["response"]["body"].get("usage") or {}
        self.input_tokens += usage.get("prompt_tokens", usage.get("input_tokens", 0))
        self.output_tokens += usage.get("completion_tokens", usage.get("output_tokens", 0))
        cached = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
        self.cached_tokens += cached.get("cached_tokens", 0)
        thought = usage.get("completion_tokens_details") or usage.get("output_tokens_details") or {}
        self.reasoning_tokens += thought.get("reasoning_tokens", 0)
