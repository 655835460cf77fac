"""Request fields that need a feature this server does not have: refused by name, never silently ignored."""

from __future__ import annotations

from collections.abc import Iterable

from sglang.ipc.errors import InvalidRequest
from sglang.ipc.inputs import GenerateReqInput
from sglang.text.stop import check_stop_regex

HIDDEN_STATES_HELP = (
    "return_hidden_states: the server is not configured to return hidden states; "
    "it would need --return-hidden-states-mode last or full, which this version does not support yet"
)


def refuse_unsupported(obj: GenerateReqInput, enable_custom_logit_processor: bool) -> None:
    """Raise :class:`InvalidRequest` where the request relies on something that would not happen."""
    if _is_set(obj.input_embeds):
        raise InvalidRequest("input_embeds: prompts as embeddings are not supported; use text or input_ids", "text")
    for name in ("image_data", "video_data", "audio_data"):
        if _is_set(getattr(obj, name)):
            # Ignoring media would answer a question nobody asked.
            raise InvalidRequest(f"{name}: the served model reads text only; leave {name} out", name)
    lora = _first_set(obj.lora_path)
    if lora is not None:
        text = f"lora_path: adapter {lora!r} was requested but LoRA is not enabled; it needs --enable-lora"
        raise InvalidRequest(f"{text}, which this version does not support yet", "lora_path")
    if obj.session_params:
        raise InvalidRequest("session_params: sessions are not supported yet; send the whole prompt", "session_params")
    if _is_set(obj.custom_logit_processor):
        if enable_custom_logit_processor:
            text = "custom_logit_processor: is not supported yet"
        else:
            text = "custom_logit_processor: is disabled on this server; it needs --enable-custom-logit-processor"
        raise InvalidRequest(text, "custom_logit_processor")
    if _is_set(obj.return_hidden_states):
        raise InvalidRequest(HIDDEN_STATES_HELP, "return_hidden_states")
    if obj.max_thinking_tokens is not None:
        text = "max_thinking_tokens: needs --enable-strict-thinking, which this version does not support yet"
        raise InvalidRequest(text, "max_thinking_tokens")


def check_stop_regexes(patterns: Iterable[str]) -> None:
    """Refuse patterns that the linear-time engine can't run."""
    for pattern in patterns:
        check_stop_regex(pattern)


def _first_set(value: object) -> object | None:
    items = value if isinstance(value, list) else [value]
    return next((item for item in items if item), None)


def _is_set(value: object) -> bool:
    """Whether there is anything in a value, a list or a list of lists."""
    if isinstance(value, list):
        return any(_is_set(item) for item in value)
    return value is not None and value is not False and value != ""
