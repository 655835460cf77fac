"""Which parsers a server uses: what its flags name, or what the chat template gives away."""

from __future__ import annotations

from sglang.parsers.reasoning import FORMATS as REASONING_FORMATS
from sglang.parsers.reasoning import detect_reasoning
from sglang.parsers.registry import TOOL_PARSERS, detect_tool_format

AUTO = "auto"


def choose_tool_format(flag: str | None, template: str | None) -> str | None:
    """The tool-call format; None: calls are not looked for. Raises ValueError for a name that does not exist."""
    if flag == AUTO:
        return detect_tool_format(template or "")
    if flag is not None and flag not in TOOL_PARSERS:
        raise ValueError(f"tool-call parser {flag!r} is not known; accepted: {', '.join(TOOL_PARSERS)}")
    return flag


def choose_reasoning(flag: str | None, template: str | None) -> str | None:
    """The name of the thinking format; None: thinking is not looked for. Raises ValueError for an unknown name."""
    if flag == AUTO:
        return detect_reasoning(template or "")
    if flag is not None and flag not in REASONING_FORMATS:
        raise ValueError(f"reasoning parser {flag!r} is not known; accepted: {', '.join(sorted(REASONING_FORMATS))}")
    return flag
