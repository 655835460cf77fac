"""Errors a request can cause, raised before any work starts.

InvalidRequest (ValueError)     a value is out of range or does not fit: HTTP 400
└── SchemaError                 wrong type or unknown field inside ``sampling_params``: HTTP 400, bare-string body
    └── UnknownFieldError       (also a TypeError) the field name is not known
RequestAborted (RuntimeError)   the scheduler refused or dropped a request, with an HTTP status
"""

from __future__ import annotations


class InvalidRequest(ValueError):
    """A request that can't be served as it stands.

    ``field`` names the offending field (dotted path) when there is one.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class SchemaError(InvalidRequest):
    """A field has the wrong JSON type."""


class UnknownFieldError(SchemaError, TypeError):
    """A key that ``sampling_params`` does not know."""


class RequestAborted(RuntimeError):
    """The scheduler ended a request with an HTTP status (503 queue full, 500 out of memory ...)."""

    def __init__(self, message: str, status_code: int) -> None:
        super().__init__(message)
        self.status_code = status_code
