"""How a flag is declared: one dataclass field that carries its help, choices, aliases and how far it works."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

Support = Literal["works", "ignored", "later"]


@dataclasses.dataclass(frozen=True, slots=True)
class Flag:
    """Everything about a flag that its name, type and default do not say.

    ``support``: "works"; "ignored" (accepted, has no effect, a changed value warns); "later" (changes outputs or
    safety and is not built yet, so a changed value is refused). ``harmless`` lists further values that describe what
    this server does anyway and pass without a word.
    """

    help: str
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    support: Support = "works"
    harmless: tuple[Any, ...] = ()
    suffix: bool = False
    """Accepts ``32k`` / ``1m`` (multiples of 1024)."""
    json: bool = False
    """The command line takes a JSON text."""
    secret: bool = False
    """Never shown by an information route or a log."""


def declare(default: Any, spec: Flag) -> Any:
    """A dataclass field with ``default`` (lists and dicts are copied for each instance) that carries ``spec``."""
    metadata = {"flag": spec}
    if isinstance(default, (list, dict)):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def flag(
    default: Any,
    help: str,
    *,
    choices: Sequence[str] = (),
    aliases: Sequence[str] = (),
    suffix: bool = False,
    json: bool = False,
    secret: bool = False,
) -> Any:
    """A flag that works."""
    return declare(default, Flag(help, tuple(choices), tuple(aliases), suffix=suffix, json=json, secret=secret))


def ignored(
    default: Any,
    help: str,
    *,
    choices: Sequence[str] = (),
    aliases: Sequence[str] = (),
    harmless: Sequence[Any] = (),
    suffix: bool = False,
    json: bool = False,
    secret: bool = False,
) -> Any:
    """A flag that is accepted for compatibility and has no effect; a changed value warns once."""
    spec = Flag(help, tuple(choices), tuple(aliases), "ignored", tuple(harmless), suffix, json, secret)
    return declare(default, spec)


def later(
    default: Any,
    help: str,
    *,
    choices: Sequence[str] = (),
    aliases: Sequence[str] = (),
    harmless: Sequence[Any] = (),
    suffix: bool = False,
    json: bool = False,
) -> Any:
    """A flag whose effect is not built yet; a changed value is refused, because ignoring it would be wrong."""
    return declare(default, Flag(help, tuple(choices), tuple(aliases), "later", tuple(harmless), suffix, json))


def spec_of(field: dataclasses.Field[Any]) -> Flag:
    """The declaration a field of ``ServerArgs`` carries."""
    spec = field.metadata["flag"]
    assert isinstance(spec, Flag)
    return spec


def default_of(field: dataclasses.Field[Any]) -> Any:
    """A fresh copy of the field's default."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default
