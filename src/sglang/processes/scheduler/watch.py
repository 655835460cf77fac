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

    __slots__ = ("_decoder", "_matcher")

    def __init__(self, tokenizer: Tokenizer, spec: DecodeSpec) -> None:
        self._decoder = IncrementalDecoder(
            tokenizer, spec.skip_special_tokens, spec.spaces_between_special_tokens, continues=True
        )
        self._matcher = StopMatcher(spec.stop, spec.stop_regex)

    def push(self, token_ids: list[int]) -> str | None:
        """Add tokens; the stop string or pattern that the text now contains, else None."""
        return self._matcher.push(self._decoder.push(token_ids))


def stop_watch_factory(path: Path, load: Callable[[Path], Tokenizer] = load_tokenizer) -> TextWatchFactory:
    """Makes watches with the tokenizer at ``path``, which loads in the background: the model takes longer anyway."""
    loaded: list[Tokenizer] = []
    loading = Thread(target=lambda: loaded.append(load(path)), name="load-tokenizer", daemon=True)
    loading.start()

    def make(spec: DecodeSpec) -> StopWatch:
        loading.join()
        if not loaded:
            raise RuntimeError(f"the tokenizer of {path} could not be loaded; the reason stands above in the log")
        return StopWatch(loaded[0], spec)

    return make
