"""``ServerArgs``: the settings of a server or an ``Engine``; one dataclass field for each command-line flag."""

from __future__ import annotations

import argparse
import dataclasses
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sglang.config.args.declare import default_of, spec_of
from sglang.config.args.groups import AllArgs
from sglang.config.flags import add_flags, make_parser, parse_with_config
from sglang.config.validate import NoEffectWarning, check_args, warn_without_effect

REDACTED = "<redacted>"
_ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


@dataclass
class ServerArgs(AllArgs):
    """All settings. ``dataclasses.asdict`` and back is an identity.

    The constructor checks values (``ServerArgsError``, a ``ValueError``, names the flag) and warns about flags that
    have no effect. Settings that are left open ("auto") are filled in by ``sglang.config.resolve.resolve_args``.
    """

    def __post_init__(self) -> None:
        self._normalise()
        check_args(self)
        warn_without_effect(self)

    def _normalise(self) -> None:
        """Accept the neighbouring forms: JSON fields as text or object, paths as ``Path``, tuples for lists."""
        self.model_path = "" if self.model_path is None else str(self.model_path)
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, tuple):
                setattr(self, field.name, list(value))
            elif spec_of(field).json and isinstance(value, (str, dict, list)):
                setattr(self, field.name, _json_form(value, wants_text=isinstance(default_of(field), str)))

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser) -> None:
        """Add every flag to ``parser``, in groups."""
        add_flags(parser)

    @classmethod
    def from_cli_args(cls, args: argparse.Namespace) -> ServerArgs:
        """Settings from a parsed namespace; attributes it lacks keep their defaults, others are ignored."""
        given = {
            field.name: getattr(args, field.name) for field in dataclasses.fields(cls) if hasattr(args, field.name)
        }
        return cls(**given)

    def replace(self, **changes: Any) -> ServerArgs:
        """A checked copy with some fields changed; it does not repeat the warnings of the original."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoEffectWarning)
            return dataclasses.replace(self, **changes)

    def url(self, port: int | None = None) -> str:
        """Address clients on this machine can use; "any interface" becomes the loopback address."""
        host = _ANY_HOST.get(self.host, self.host)
        if ":" in host and not host.startswith("["):
            host = f"[{host}]"
        scheme = "https" if self.ssl_certfile else "http"
        return f"{scheme}://{host}:{self.port if port is None else port}"

    def public_dict(self) -> dict[str, Any]:
        """``dataclasses.asdict`` with keys and passwords replaced by ``<redacted>``; for logs and info routes."""
        values = dataclasses.asdict(self)
        for field in dataclasses.fields(self):
            if spec_of(field).secret and values[field.name] is not None:
                values[field.name] = REDACTED
        return values


def _json_form(value: Any, *, wants_text: bool) -> Any:
    if wants_text:
        return value if isinstance(value, str) else json.dumps(value)
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value  # the check of types reports it with the flag's name


def prepare_server_args(argv: Sequence[str]) -> ServerArgs:
    """Settings from a command line; ``--config FILE.yaml`` gives values that the command line overrides.

    Unknown or malformed flags end the process with a message (``argparse`` habits, exit status 2).
    """
    return ServerArgs.from_cli_args(parse_with_config(make_parser(), list(argv)))
