"""``sglang serve [MODEL] [flags]``: start the server and stay until it ends."""

from __future__ import annotations

from sglang.cli.settings import model_word_to_flag, read_settings, with_default_model
from sglang.config.flags import make_parser

DESCRIPTION = (
    "Serve a language model over HTTP. MODEL (or --model-path) is a folder, a .gguf file or a Hugging Face id; "
    "without it the embedded default model is served. Counts of tokens may be written as 32k."
)


def main(argv: list[str], prog: str = "sglang serve") -> int:
    """Serve until stopped; returns the exit status."""
    parser = make_parser(prog, DESCRIPTION)
    parser.usage = f"{prog} [MODEL] [flags]"
    parser.add_argument(
        "--model-type", choices=("auto", "llm", "diffusion"), default="auto", help="kind of model; auto means llm"
    )
    namespace, args = read_settings(parser, model_word_to_flag(parser, argv))
    if namespace.model_type == "diffusion":
        parser.error("--model-type diffusion is not supported: this server runs language models (auto, llm)")
    args = with_default_model(args)
    # Loaded last: wrong flags should be reported at once, without waiting for the web framework.
    from sglang.api.server import launch_server

    return int(launch_server(args) or 0)
