"""A batch as it lies on disk and as clients see it."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from sglang.api.openai.batch.disk import new_name

UNFINISHED = frozenset({"validating", "in_progress", "finalizing", "cancelling"})
WINDOW_SECONDS = {"24h": 24 * 3600}


class BatchRecord(msgspec.Struct):
    """Times in seconds since 1970. The names of the output files are drawn at the beginning, so that finishing can be
    repeated after a crash."""

    id: str
    endpoint: str
    input_file_id: str
    completion_window: str
    created_at: int
    expires_at: int
    metadata: dict[str, str] | None
    output_name: str
    error_name: str
    output_seconds: int | None = None
    """How long the output files live; None: until deleted."""
    end: str | None = None
    """The final status, once all answers are in; what remains is to hand them over."""
    status: str = "validating"
    in_progress_at: int | None = None
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    errors: list[dict[str, Any]] | None = None
    total: int = 0
    completed: int = 0
    failed: int = 0
    usage: dict[str, Any] | None = None

    @property
    def unfinished(self) -> bool:
        return self.status in UNFINISHED

    def become(self, status: str) -> None:
        """Move on, and note when."""
        self.status = status
        setattr(self, f"{status}_at", int(time.time()))

    def public(self, model: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": self.endpoint,
            "model": model,
            "errors": None if self.errors is None else {"object": "list", "data": self.errors},
            "input_file_id": self.input_file_id,
            "completion_window": self.completion_window,
            "status": self.status,
            "output_file_id": self.output_file_id,
            "error_file_id": self.error_file_id,
            "created_at": self.created_at,
            "in_progress_at": self.in_progress_at,
            "expires_at": self.expires_at,
            "finalizing_at": self.finalizing_at,
            "completed_at": self.completed_at,
            "failed_at": self.failed_at,
            "expired_at": self.expired_at,
            "cancelling_at": self.cancelling_at,
            "cancelled_at": self.cancelled_at,
            "request_counts": {"total": self.total, "completed": self.completed, "failed": self.failed},
            "usage": self.usage,
            "metadata": self.metadata,
        }


def new_batch(
    endpoint: str, input_file_id: str, window: str, metadata: dict[str, str] | None, output_seconds: int | None
) -> BatchRecord:
    now = int(time.time())
    return BatchRecord(
        id=new_name("batch"),
        endpoint=endpoint,
        input_file_id=input_file_id,
        completion_window=window,
        created_at=now,
        expires_at=now + WINDOW_SECONDS[window],
        metadata=metadata,
        output_name=new_name("file"),
        error_name=new_name("file"),
        output_seconds=output_seconds,
    )
