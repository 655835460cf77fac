"""Where the terminal commands get their text from: an engine in this process, or a running server."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from typing import Any, Protocol, cast

import httpx

from sglang.config.server_args import ServerArgs
from sglang.engine.engine import Engine

Message = dict[str, str]

# Sampling defaults a checkpoint may name in its generation_config.
_MODEL_DEFAULTS = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


class SourceError(RuntimeError):
    """The answer could not be had; the text says why."""


class Source(Protocol):
    """Answers a conversation. Closing the iterator early stops the model."""

    def stream(self, messages: list[Message], params: dict[str, Any]) -> Iterator[str]:
        """Yield the answer's text piece by piece. ``params``: max_new_tokens, temperature (if set)."""
        ...


class EngineSource:
    """A model in this process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def stream(self, messages: list[Message], params: dict[str, Any]) -> Iterator[str]:
        template = self._engine.tokenizer_manager.chat_template
        if template is None:
            raise SourceError("this model has no chat template; give one with --chat-template FILE.jinja, or use --raw")
        prompt = template.render(messages, add_generation_prompt=True)
        generation_config = self._engine.tokenizer_manager.model_config.generation_config
        defaults = {
            name: generation_config[name] for name in _MODEL_DEFAULTS if generation_config.get(name) is not None
        }
        return self.complete(prompt, defaults | params)

    def complete(self, prompt: str, params: dict[str, Any]) -> Iterator[str]:
        """Continue ``prompt`` as it stands."""
        shown = 0
        chunks = cast("Generator[dict[str, Any], None, None]", self._engine.generate(prompt, params, stream=True))
        with closing(chunks):
            for chunk in chunks:
                text = chunk["text"]
                yield text[shown:]
                shown = len(text)


class ServerSource:
    """A server that speaks the OpenAI chat protocol, by its base address."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def stream(self, messages: list[Message], params: dict[str, Any]) -> Iterator[str]:
        body: dict[str, Any] = {"model": "default", "messages": messages, "stream": True}
        body |= {"max_tokens" if name == "max_new_tokens" else name: value for name, value in params.items()}
        try:
            with self._client.stream("POST", "/v1/chat/completions", json=body) as response:
                if response.status_code != 200:
                    raise SourceError(f"the server answered {response.status_code}: {response.read().decode()}")
                yield from _event_texts(response.iter_lines())
        except httpx.HTTPError as error:
            raise SourceError(f"no answer from {self._client.base_url}: {error}") from error


def _event_texts(lines: Iterator[str]) -> Iterator[str]:
    """The text in each server-sent event of a chat stream."""
    for line in lines:
        if not line.startswith("data:") or line == "data: [DONE]":
            continue
        event = json.loads(line[len("data:") :])
        if "choices" not in event:
            raise SourceError(f"the server broke off: {event.get('error', event)}")
        for choice in event["choices"]:
            yield choice["delta"].get("content") or ""


@contextmanager
def open_engine(args: ServerArgs) -> Iterator[EngineSource]:
    """An engine for the duration of the block."""
    # EngineSource reads the text so far in each chunk.
    with Engine(server_args=args.replace(incremental_streaming_output=False)) as engine:
        yield EngineSource(engine)


@contextmanager
def open_server(url: str, api_key: str | None) -> Iterator[ServerSource]:
    """A connection to a running server."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    # Answers may take long to begin (a queue, a long prompt), but a server that is there accepts at once.
    with httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=httpx.Timeout(600, connect=10)) as client:
        yield ServerSource(client)
