"""Extended thinking: a request's switch → the model's own; earlier thoughts → what the chat template takes."""

from __future__ import annotations

from typing import Any

from sglang.api.anthropic.protocol import Thinking
from sglang.api.chat.thinking import thinking_variables
from sglang.ipc.errors import InvalidRequest
from sglang.parsers.reasoning import ReasoningFormat


def thinking_kwargs(thinking: Thinking | None, form: ReasoningFormat | None) -> dict[str, Any]:
    """Template variables that switch thinking on or off. ``form`` is None where the model has no thinking part."""
    if thinking is None:
        return {}
    wanted = thinking.type != "disabled"
    if form is None:
        if wanted:
            raise InvalidRequest(
                f"thinking.type: this server has no reasoning parser for its model, so {thinking.type!r} can't work; "
                "send 'disabled', or start the server with --reasoning-parser",
                "thinking",
            )
        return {}
    if form.on == "always" and not wanted:
        raise InvalidRequest(
            "thinking.type: this model always thinks; leave thinking out, or send 'adaptive'", "thinking"
        )
    return thinking_variables(wanted, form)


def past_thoughts(thoughts: str, template_source: str, form: ReasoningFormat | None) -> tuple[str | None, str]:
    """(``reasoning_content``, text in front of the answer) for the thoughts of an earlier turn.

    A template that knows ``reasoning_content`` gets that; else the thoughts go back between the model's markers; a
    model without any never sees them.
    """
    if not thoughts:
        return None, ""
    if "reasoning_content" in template_source:
        return thoughts, ""
    if form is None:
        return None, ""
    return None, f"{form.start}{thoughts}{form.end}"
