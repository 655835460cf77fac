"""Words of a command line → ``ServerArgs``, with the embedded default model where none is named."""

from __future__ import annotations

import argparse
import sys

from sglang.config.flags import FlagParser, parse_with_config
from sglang.config.server_args import ServerArgs
from sglang.config.validate import ServerArgsError
from sglang.formats.embedded import EMBEDDED_HELP, EMBEDDED_NAME, find_embedded_model

_MODEL_FLAGS = ("--model-path", "--model")


def model_word_to_flag(parser: FlagParser, argv: list[str]) -> list[str]:
    """``MODEL --port 1`` → ``--model-path=MODEL --port 1``: a first word without a dash names the model."""
    if not argv or argv[0].startswith("-"):
        return argv
    if any(word.split("=")[0] in _MODEL_FLAGS for word in argv[1:]):
        parser.error(f"two models are given: {argv[0]!r} and the one after --model-path; keep one of them")
    return [f"--model-path={argv[0]}", *argv[1:]]


def read_settings(parser: FlagParser, argv: list[str]) -> tuple[argparse.Namespace, ServerArgs]:
    """Parse and check; a bad value ends the process with its message and status 2, like a bad flag."""
    namespace = parse_with_config(parser, argv)
    try:
        return namespace, ServerArgs.from_cli_args(namespace)
    except ServerArgsError as error:
        parser.error(str(error))


def with_default_model(args: ServerArgs) -> ServerArgs:
    """``args``, with the embedded model if it names none. Says so on stderr; absent, says what brings it (exit 1)."""
    if args.model_path:
        return args
    path = find_embedded_model()
    if path is None:
        print(f"No model is given and the embedded one is not installed; {EMBEDDED_HELP}", file=sys.stderr)
        raise SystemExit(1)
    print(f"No model is given: taking the embedded {EMBEDDED_NAME} ({path.name}).", file=sys.stderr)
    return args.replace(model_path=str(path), served_model_name=args.served_model_name or EMBEDDED_NAME)
