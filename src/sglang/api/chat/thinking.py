"""Switching thinking on or off for one request, whatever the model calls the switch."""

from __future__ import annotations

from typing import Any

from sglang.parsers.reasoning import ReasoningFormat


def thinking_variables(wanted: bool, form: ReasoningFormat) -> dict[str, Any]:
    """Template variables that switch the thinking of a format; none where it has no switch."""
    if form.on == "always":
        return {}
    if form.on == "effort":
        return {} if wanted else {"reasoning_effort": "none"}
    name, default = form.on
    if isinstance(default, str):
        return {name: "enabled" if wanted else "disabled"}
    return {name: wanted}
