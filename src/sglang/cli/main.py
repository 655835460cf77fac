"""The ``sglang`` command: finds the subcommand by name and loads only that one."""

from __future__ import annotations

import importlib
import sys
import warnings

# name → ("module:function", what it does). The function takes the remaining words and returns the exit status.
COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("sglang.cli.serve:main", "serve a model over HTTP"),
    "chat": ("sglang.cli.chat:main", "talk to a model in the terminal"),
    "generate": ("sglang.cli.generate:main", "answer one prompt on standard output"),
    "env": ("sglang.cli.env:main", "describe this machine and installation"),
    "version": ("sglang.cli.version:main", "print the version"),
}


def main(argv: list[str] | None = None) -> int:
    """Run ``sglang ARGV``; returns the exit status."""
    words = sys.argv[1:] if argv is None else argv
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if words[0] in ("-V", "--version"):
        words = ["version", *words[1:]]
    if words[0] not in COMMANDS:
        print(f"sglang: unknown command {words[0]!r}; known are: {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    warnings.formatwarning = _one_line_warning
    module, function = COMMANDS[words[0]][0].split(":")
    try:
        return int(getattr(importlib.import_module(module), function)(words[1:]) or 0)
    except KeyboardInterrupt:
        return 130


def usage() -> str:
    """The text of ``sglang --help``."""
    lines = [f"  {name:<10} {text}" for name, (_, text) in COMMANDS.items()]
    return "\n".join(["usage: sglang COMMAND [words and flags]", "", *lines, "", "'sglang COMMAND --help' tells more."])


def _one_line_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """At a prompt, a warning's text matters and the source line that raised it does not."""
    return f"{category.__name__}: {message}\n"


if __name__ == "__main__":
    sys.exit(main())
