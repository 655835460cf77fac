"""Stop strings and patterns: watches the text of a request as the scheduler sees it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Thread

from sglang.ipc.messages import DecodeSpec
from sglang.processes.scheduler.request import TextWatchFactory
from sglang.text.incremental import IncrementalDecoder
from sglang.text.stop import StopMatcher
from sglang.text.tokenizer import Tokenizer, load_tokenizer


class StopWatch:
    """Decodes the tokens of one request and looks for its stops."""

    __slots__ = ("_decoder", "_matcher", "_spec", "_tokenizer")

    def __init__(self, tokenizer: Callable[[], Tokenizer], spec: DecodeSpec) -> None:
        self._tokenizer = tokenizer
        self._spec = spec
        self._decoder: IncrementalDecoder | None = None
        self._matcher = StopMatcher(spec.stop, spec.stop_regex)

    def push(self, token_ids: list[int]) -> str | None:
        """Add tokens; the stop string or pattern that the text now contains, else None."""
        if self._decoder is None:
            spec = self._spec
            self._decoder = IncrementalDecoder(
                self._tokenizer(), spec.skip_special_tokens, spec.spaces_between_special_tokens, continues=True
            )
        return self._matcher.push(self._decoder.push(token_ids))


class _Loader:
    """Loads a tokenizer in the background when it is first asked for."""

    def __init__(self, path: Path, load: Callable[[Path], Tokenizer]) -> None:
        self._path = path
        self._load = load
        self._loaded: Tokenizer | None = None
        self._thread: Thread | None = None

    def start(self) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._run, name="load-tokenizer", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        self._loaded = self._load(self._path)

    def get(self) -> Tokenizer:
        if self._loaded is None:
            assert self._thread is not None
            self._thread.join()
            if self._loaded is None:
                raise RuntimeError(
                    f"the tokenizer of {self._path} could not be loaded; the reason stands above in the log"
                )
        return self._loaded


def _load(path: Path) -> Tokenizer:
    return load_tokenizer(path, decode_only=True)


def stop_watch_factory(path: Path, load: Callable[[Path], Tokenizer] = _load) -> TextWatchFactory:
    """Makes watches with the tokenizer at ``path``. It is loaded for the first of them, while that request's prompt is
    computed: a server that nobody sends stop strings to starts sooner and is smaller without it."""
    tokenizer = _Loader(path, load)

    def make(spec: DecodeSpec) -> StopWatch:
        watch = StopWatch(tokenizer.get, spec)
        tokenizer.start()
        return watch

    return make
