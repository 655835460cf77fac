"""``sglang generate PROMPT [flags]``: answer once on standard output."""

from __future__ import annotations

import sys

from sglang.cli.chat import add_answer_flags, answer_params
from sglang.cli.settings import read_settings, with_default_model
from sglang.config.flags import make_parser


def main(argv: list[str]) -> int:
    """Answer and leave; returns the exit status."""
    parser = make_parser("sglang generate", "Answer PROMPT once. '-' reads it from standard input.")
    parser.usage = "sglang generate PROMPT [--model-path MODEL] [flags]"
    parser.add_argument("prompt", metavar="PROMPT", help="the question, or '-' to read it from standard input")
    parser.add_argument("--raw", action="store_true", help="continue PROMPT as it stands, without the chat template")
    add_answer_flags(parser)
    parser.set_defaults(log_level="error")
    namespace, args = read_settings(parser, argv)
    prompt = sys.stdin.read() if namespace.prompt == "-" else namespace.prompt
    # Loaded after the flags were checked: the engine brings tokenizer and socket libraries along.
    from sglang.cli.sources import SourceError, open_engine

    messages = [{"role": "system", "content": namespace.system}] if namespace.system else []
    messages.append({"role": "user", "content": prompt})
    params = answer_params(namespace)
    try:
        with open_engine(with_default_model(args)) as source:
            for piece in source.complete(prompt, params) if namespace.raw else source.stream(messages, params):
                print(piece, end="", flush=True)
    except (SourceError, ValueError) as error:
        print(f"sglang generate: {error}", file=sys.stderr)
        return 1
    print()
    return 0
