"""``sglang chat [MODEL | --url URL]``: talk to a model in the terminal."""

from __future__ import annotations

import argparse
import importlib
import sys
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TextIO

from sglang.cli.settings import model_word_to_flag, read_settings, with_default_model
from sglang.config.flags import FlagParser, make_parser

if TYPE_CHECKING:
    from sglang.cli.sources import Source
    from sglang.config.server_args import ServerArgs

HINT = "/reset starts over, /exit or Ctrl-D leaves, Ctrl-C stops an answer."


def main(argv: list[str]) -> int:
    """Chat until the user leaves."""
    parser = make_parser("sglang chat", f"Talk to a model in the terminal. {HINT}")
    parser.usage = "sglang chat [MODEL | --url URL] [flags]"
    parser.add_argument("--url", help="talk to a running server at this address instead of loading a model")
    add_answer_flags(parser)
    parser.set_defaults(log_level="error")
    namespace, args = read_settings(parser, model_word_to_flag(parser, argv))
    with open_source(namespace.url, args) as source:
        print(HINT, file=sys.stderr)
        Chat(source, answer_params(namespace), namespace.system, sys.stdout).run()
    return 0


def add_answer_flags(parser: FlagParser) -> None:
    """Flags that say how an answer is made."""
    parser.add_argument("--system", help="system message")
    parser.add_argument("--max-new-tokens", type=int, default=1024, metavar="N", help="longest answer, in tokens")
    parser.add_argument("--temperature", type=float, metavar="X", help="0 is greedy; default: the model's own")


def answer_params(namespace: argparse.Namespace) -> dict[str, Any]:
    """Sampling parameters out of those flags."""
    params: dict[str, Any] = {"max_new_tokens": namespace.max_new_tokens}
    if namespace.temperature is not None:
        params["temperature"] = namespace.temperature
    return params


def open_source(url: str | None, args: ServerArgs) -> AbstractContextManager[Source]:
    """The server at ``url``, or else the model that ``args`` name."""
    # Loaded after the flags were checked: the engine brings tokenizer and socket libraries along.
    from sglang.cli.sources import open_engine, open_server

    return open_server(url, args.api_key) if url else open_engine(with_default_model(args))


class Chat:
    """A conversation: reads lines, prints answers, remembers both."""

    def __init__(self, source: Source, params: dict[str, Any], system: str | None, out: TextIO) -> None:
        self._source = source
        self._params = params
        self._start = [{"role": "system", "content": system}] if system else []
        self._out = out
        self.messages = list(self._start)

    def run(self) -> None:
        """Serve lines until end of input."""
        enable_line_editing()
        prompt = "> " if sys.stdin.isatty() else ""
        while True:
            try:
                line = input(prompt).strip()
            except EOFError:
                return
            except KeyboardInterrupt:
                print(file=self._out)
                continue
            if line in ("/exit", "/quit"):
                return
            if line == "/reset":
                self.messages = list(self._start)
            elif line.startswith("/"):
                print(f"Unknown command {line}. {HINT}", file=self._out)
            elif line:
                self.ask(line)

    def ask(self, line: str) -> None:
        """One turn. Ctrl-C keeps the part of the answer that came; an error takes the question back."""
        self.messages.append({"role": "user", "content": line})
        pieces: list[str] = []
        try:
            self._print_answer(pieces)
        except KeyboardInterrupt:
            pass
        except (RuntimeError, ValueError) as error:
            self.messages.pop()
            print(f"Error: {error}", file=sys.stderr)
            return
        print(file=self._out, flush=True)
        self.messages.append({"role": "assistant", "content": "".join(pieces)})

    def _print_answer(self, pieces: list[str]) -> None:
        answer = self._source.stream(self.messages, self._params)
        try:
            for piece in answer:
                pieces.append(piece)
                print(piece, end="", flush=True, file=self._out)
        finally:
            close = getattr(answer, "close", None)  # stops the model when we leave early
            if close is not None:
                close()


def enable_line_editing() -> None:
    """Arrow keys and history, where Python was built with readline."""
    try:
        importlib.import_module("readline")
    except ImportError:
        pass
