"""Does a prompt with its answer fit the context? Checked after tokenising, before anything is sent."""

from __future__ import annotations

import msgspec

from sglang.ipc.errors import InvalidRequest
from sglang.ipc.sampling_params import SamplingParams
from sglang.processes.tokenizer.validate import PromptSpec, Rules


def fit(spec: PromptSpec, ids: list[int], rules: Rules) -> tuple[list[int], SamplingParams]:
    """The ids to send and the parameters with ``max_new_tokens`` that fits.

    A prompt takes at most context length - 1 tokens: one is left to generate. A ``max_new_tokens`` that the request
    set itself is refused when it can't fit (clipped under auto-truncate); the default is clipped silently.
    """
    context = rules.context_length
    if not ids:
        raise InvalidRequest("text: the prompt is empty; it needs at least one token", "text")
    if len(ids) >= context:
        if not rules.allow_auto_truncate:
            field = "text" if spec.input_ids is None else "input_ids"
            text = f"{field}: the prompt has {len(ids)} tokens, but the context length is {context} tokens"
            raise InvalidRequest(f"{text}; shorten it or start the server with --allow-auto-truncate", field)
        ids = ids[: context - 1]
    if spec.logprob_start_len > len(ids):
        text = f"logprob_start_len: {spec.logprob_start_len} lies behind the prompt of {len(ids)} tokens"
        raise InvalidRequest(text, "logprob_start_len")
    room = context - len(ids)
    wanted = spec.params.max_new_tokens
    if wanted is not None and wanted <= room:
        return ids, spec.params
    if wanted is not None and spec.max_new_tokens_given and not rules.allow_auto_truncate:
        text = (
            f"max_new_tokens: the context length is {context} tokens, but {len(ids) + wanted} are needed: "
            f"{len(ids)} for the prompt and {wanted} for the completion; reduce one of them"
        )
        raise InvalidRequest(text, "max_new_tokens")
    minimum = min(spec.params.min_new_tokens, room)
    return ids, msgspec.structs.replace(spec.params, max_new_tokens=room, min_new_tokens=minimum)
