"""How a stream shows itself. Logprobs have the native layout: every entry is ``(logprob, token id, text or None)``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sglang.ipc.messages import LogprobDelta

Entry = tuple[float | None, int, str | None]
TokenText = Callable[[int], str] | None


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a stream renders its result."""

    index: int
    """Position in the flattened batch, prompt-major."""
    rid: str
    weight_version: str = "default"
    has_text: bool = True
    """False when the server runs without a tokenizer."""
    return_logprob: bool = False
    top_logprobs_num: int = 0
    token_ids_logprob: bool = False
    token_text: TokenText = None
    """Decodes one id for the third slot of logprob entries; None leaves it empty."""
    return_prompt_token_ids: bool = False


def logprob_fields(inputs: LogprobDelta, outputs: LogprobDelta, options: StreamOptions) -> dict[str, Any]:
    """The ``*_logprobs`` keys of ``meta_info``: prompt entries from ``inputs``, generated ones from ``outputs``."""
    text = options.token_text
    fields: dict[str, Any] = {
        "input_token_logprobs": entries(inputs.input_val, inputs.input_idx, text),
        "output_token_logprobs": entries(outputs.output_val, outputs.output_idx, text),
    }
    if options.top_logprobs_num:
        fields["input_top_logprobs"] = positions(inputs.input_top_val, inputs.input_top_idx, text)
        fields["output_top_logprobs"] = positions(outputs.output_top_val, outputs.output_top_idx, text)
    if options.token_ids_logprob:
        fields["input_token_ids_logprobs"] = positions(inputs.input_ids_val, inputs.input_ids_idx, text)
        fields["output_token_ids_logprobs"] = positions(outputs.output_ids_val, outputs.output_ids_idx, text)
    return fields


def entries(values: Sequence[float | None], ids: Sequence[int], text: TokenText) -> list[Entry]:
    if text is None:
        return [(value, token, None) for value, token in zip(values, ids, strict=True)]
    return [(value, token, text(token)) for value, token in zip(values, ids, strict=True)]


def positions(
    values: Sequence[list[float] | None], ids: Sequence[list[int] | None], text: TokenText
) -> list[list[Entry] | None]:
    """One list of entries a position; None where the position has no value (the first prompt token)."""
    return [
        None if value is None or token is None else entries(value, token, text)
        for value, token in zip(values, ids, strict=True)
    ]
