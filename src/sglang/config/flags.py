"""Fields of ``ServerArgs`` → ``argparse`` flags, and ``--config FILE.yaml`` → the same flags."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import yaml

from sglang.config.args.declare import Flag, default_of, spec_of
from sglang.config.args.groups import GROUPS
from sglang.config.validate import field_types, flag_name

_SUFFIXES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_NOTES = {"works": "", "ignored": " [no effect yet]", "later": " [not supported yet]"}


class FlagParser(argparse.ArgumentParser):
    """A parser that takes no abbreviations (they break when a flag is added) and proposes the flag that was meant."""

    def __init__(self, prog: str = "sglang serve", description: str | None = None) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.error(f"unknown argument {unknown[0]!r}{self.suggestion(unknown[0])}")
        return parsed

    def suggestion(self, word: str) -> str:
        """``; did you mean --x?`` or nothing."""
        close = difflib.get_close_matches(word.split("=")[0], list(self._option_string_actions), n=1, cutoff=0.6)
        return f"; did you mean {close[0]}?" if close else ""

    def option(self, key: str) -> argparse.Action | None:
        """The flag that a key of a config file means (dashes or underscores)."""
        return self._option_string_actions.get("--" + key.replace("_", "-"))

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n('{self.prog} --help' lists all flags)\n")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add every flag to ``parser``, in one argument group for each part."""
    for group_class in GROUPS:
        group = parser.add_argument_group((group_class.__doc__ or "").rstrip("."))
        for field in dataclasses.fields(group_class):
            spec = spec_of(field)
            help_text = (spec.help + _NOTES[spec.support]).replace("%", "%%")
            names = [flag_name(field.name), *spec.aliases]
            group.add_argument(*names, dest=field.name, help=help_text, **_reader(field, spec))


def _reader(field: dataclasses.Field[Any], spec: Flag) -> dict[str, Any]:
    """The ``add_argument`` keywords that read a field of this type."""
    kind, item, _ = field_types()[field.name]
    default = default_of(field)
    if kind is bool:
        return {"action": "store_true", "default": default}
    if spec.json:
        convert = json_text if kind is str else json_value
        return {"type": convert, "default": default, "metavar": "JSON"}
    if kind is list:
        convert_item: Callable[[str], Any] = item or str
        return {"nargs": "+", "type": convert_item, "default": default, "metavar": field.name.upper().split("_")[-1]}
    if kind is int:
        return {"type": suffixed_int if spec.suffix else int, "default": default, "metavar": "N"}
    options: dict[str, Any] = {"type": kind, "default": default, "metavar": "X" if kind is float else "TEXT"}
    if spec.choices:
        options["choices"] = spec.choices
        del options["metavar"]
    return options


def suffixed_int(text: str) -> int:
    """``4096``, ``32k`` (32 × 1024), ``1m``, ``-1``."""
    match = re.fullmatch(r"(-?\d+)([kmg]?)", text.strip().lower())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number such as 4096 or 32k")
    return int(match[1]) * _SUFFIXES[match[2]]


def json_text(text: str) -> str:
    """A text that must be JSON; stays a text."""
    json_value(text)
    return text


def json_value(text: str) -> Any:
    """The value that a JSON text stands for."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON ({error})") from None


def make_parser(prog: str = "sglang serve", description: str | None = None) -> FlagParser:
    """A parser with every flag and ``--config``."""
    parser = FlagParser(prog, description or "Serve a language model over HTTP.")
    parser.add_argument("--config", metavar="FILE", help="YAML file with flags; the command line wins")
    add_flags(parser)
    return parser


def parse_with_config(parser: FlagParser, argv: list[str]) -> argparse.Namespace:
    """Parse ``argv``; flags of a ``--config`` file count as if written before it, so the command line wins."""
    path = _config_path(parser, argv)
    if path is not None:
        argv = [*config_to_argv(parser, path), *argv]
    namespace: argparse.Namespace = parser.parse_args(argv)
    return namespace


def _config_path(parser: FlagParser, argv: list[str]) -> Path | None:
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False, prog=parser.prog)
    finder.add_argument("--config")
    given = finder.parse_known_args(argv)[0].config
    return None if given is None else Path(given)


def config_to_argv(parser: FlagParser, path: Path) -> list[str]:
    """The flags a YAML file stands for. Keys are flag names with dashes or underscores."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        parser.error(f"--config {path} can't be read: {error.strerror}")
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        parser.error(f"--config {path} is not YAML: {error}")
    if content is None:
        return []
    if not isinstance(content, dict):
        parser.error(f"--config {path} must hold 'flag: value' lines, not a {type(content).__name__}")
    argv: list[str] = []
    for key, value in content.items():
        action = parser.option(str(key))
        if action is None or action.dest in ("config", "help"):
            parser.error(f"--config {path}: unknown key {key!r}{parser.suggestion('--' + str(key).replace('_', '-'))}")
        argv += _as_argv(parser, path, action, value)
    return argv


def _as_argv(parser: FlagParser, path: Path, action: argparse.Action, value: Any) -> list[str]:
    name = action.option_strings[0]
    if value is None:
        return []
    if action.nargs == 0:  # a switch
        if not isinstance(value, bool):
            parser.error(f"--config {path}: {name} is a switch; give true or false, not {value!r}")
        return [name] if value else []
    if action.metavar == "JSON" and not isinstance(value, str):
        return [f"{name}={json.dumps(value)}"]
    if isinstance(value, list) and action.nargs == "+":
        return [name, *map(str, value)] if value else []
    if isinstance(value, (dict, list, bool)):
        parser.error(f"--config {path}: {name} takes one plain value, not {value!r}")
    return [f"{name}={value}"]
