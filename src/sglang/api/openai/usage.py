"""Token counts and the other small objects around the choices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sglang.processes.tokenizer.streams import RequestGroup, RequestStream


def usage(group: RequestGroup, n: int, cache_report: bool) -> dict[str, Any]:
    """Counts so far. A prompt counts once however many samples (``n``) it has."""
    prompt = sum(stream.prompt_tokens for stream in group.streams[::n])
    completion = sum(stream.completion_tokens for stream in group.streams)
    cached = sum(stream.cached_tokens for stream in group.streams[::n]) if cache_report else None
    return usage_object(prompt, completion, cached, 0)


def usage_object(prompt: int, completion: int, cached: int | None, reasoning: int) -> dict[str, Any]:
    """The ``usage`` object; ``cached`` is None where the server does not report it."""
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": None if cached is None else {"cached_tokens": cached},
        "reasoning_tokens": reasoning,
        "completion_tokens_details": {"reasoning_tokens": reasoning} if reasoning else None,
    }


def metadata(stream: RequestStream) -> dict[str, Any]:
    version = stream.options.weight_version
    spans = [{"version": version, "start": 0, "end": stream.completion_tokens}]
    return {"weight_version": version, "weight_versions": spans}


def finish(stream: RequestStream) -> tuple[str | None, Any]:
    """``finish_reason`` and ``matched_stop`` of a choice."""
    reason = stream.finish_reason
    if reason is None:
        return None, None
    return str(reason["type"]), reason.get("matched")


def cache_details(group: RequestGroup) -> dict[str, Any]:
    return {"device": sum(stream.cached_tokens for stream in group.streams), "host": 0}
