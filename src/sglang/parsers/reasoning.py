"""Thinking before the answer: one row of data for each format, and the one reader that they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sglang.parsers.events import ParserEvent, ReasoningDelta, TextDelta
from sglang.parsers.source import Emit, Reader, Source, begins_with, close, feed, space, until

Switch = tuple[str, Any]
"""(template variable, default): thinking is on where the variable's value, or else the default, is truthy."""

_NO_EFFORT = (None, "none", "no_think")


@dataclass(frozen=True, slots=True)
class ReasoningFormat:
    """``start`` text ``end``.

    ``inside``: the answer starts inside the thinking, because the template or the habit of the model opened it.
    ``interrupts``: markers that end thinking too and belong to what follows.
    ``on``: when a request has thinking on: always, by a template variable, or by an effort other than none.
    ``answer``: what stands directly before the answer, where that is not ``end``.
    """

    start: str
    end: str
    inside: bool = False
    interrupts: tuple[str, ...] = ()
    on: Literal["always", "effort"] | Switch = "always"
    kind: Literal["markers", "harmony", "prepend"] = "markers"
    answer: str = ""

    @property
    def before_answer(self) -> str:
        """The marker from which on a grammar holds."""
        return self.answer or self.end

    def is_on(self, template_kwargs: Mapping[str, Any]) -> bool:
        """Whether a request with these template variables thinks."""
        if self.on == "always":
            return True
        if self.on == "effort":
            return template_kwargs.get("reasoning_effort") not in _NO_EFFORT
        name, default = self.on
        value = template_kwargs.get(name, default)
        return value == "enabled" if isinstance(value, str) else bool(value)


def _think(inside: bool = False, interrupts: tuple[str, ...] = (), on: Any = "always") -> ReasoningFormat:
    return ReasoningFormat("<think>", "</think>", inside, interrupts, on)


_BY_THINKING = _think(on=("thinking", False))
_UNLESS_DISABLED = _think(on=("enable_thinking", True))
_IF_ENABLED = _think(on=("enable_thinking", False))
_WITH_TOOLS = _think(interrupts=("<tool_call>",), on=("enable_thinking", True))
_ALWAYS_INSIDE = _think(inside=True)

FORMATS: Mapping[str, ReasoningFormat] = {
    "deepseek-r1": _ALWAYS_INSIDE,
    "step3": _ALWAYS_INSIDE,
    "step3p5": _ALWAYS_INSIDE,
    "gigachat35": _ALWAYS_INSIDE,
    "qwen3-thinking": _ALWAYS_INSIDE,
    "minimax": _ALWAYS_INSIDE,
    "deepseek-v3": _BY_THINKING,
    "deepseek-v4": _BY_THINKING,
    "deepseek-v41": _BY_THINKING,
    "qwen3": _WITH_TOOLS,
    "dots": _WITH_TOOLS,
    "nanbeige": _WITH_TOOLS,
    "interns1": _WITH_TOOLS,
    "glm45": _UNLESS_DISABLED,
    "ling3": _UNLESS_DISABLED,
    "nemotron_3": _UNLESS_DISABLED,
    "granite_thinking_parser": _UNLESS_DISABLED,
    "mimo": _IF_ENABLED,
    "poolside_v1": _IF_ENABLED,
    "kimi": ReasoningFormat("◁think▷", "◁/think▷"),
    "kimi_k2": _think(interrupts=("<|tool_calls_section_begin|>",), on=("thinking", True)),
    "kimi_k3": ReasoningFormat("<|open|>think<|sep|>", "<|close|>think<|sep|>", on=("thinking", True)),
    "gpt-oss": ReasoningFormat(
        "<|channel|>analysis<|message|>", "<|end|>", kind="harmony", answer="<|channel|>final<|message|>"
    ),
    "minimax-append-think": ReasoningFormat("<think>", "</think>", kind="prepend"),
    "minimax-m3": ReasoningFormat("<mm:think>", "</mm:think>", on=("thinking_mode", "")),
    "mistral": ReasoningFormat("[THINK]", "[/THINK]", on="effort"),
    "hunyuan": _think(interrupts=("<tool_calls>",), on="effort"),
    "gemma4": ReasoningFormat("<|channel>thought\n", "<channel|>", on=("enable_thinking", False)),
    "cohere_command4": ReasoningFormat("<|START_THINKING|>", "<|END_THINKING|>", inside=True),
}

# Marker in a chat template → format; the first that fits wins.
_HINTS = (
    ("<|channel|>analysis", "gpt-oss"),
    ("◁think▷", "kimi"),
    ("<|open|>think", "kimi_k3"),
    ("<mm:think>", "minimax-m3"),
    ("[THINK]", "mistral"),
    ("<|START_THINKING|>", "cohere_command4"),
    ("<|channel>", "gemma4"),
    ("<|tool_calls_section_begin|>", "kimi_k2"),
    ("<tool_sep>", "hunyuan"),
    ("<arg_key>", "glm45"),
)


def detect_reasoning(template: str) -> str | None:
    """The format that a chat template speaks; None where it knows no thinking."""
    for marker, name in _HINTS:
        if marker in template and ("think" in template.lower() or name == "gpt-oss"):
            return name
    if "<think>" not in template and "</think>" not in template:
        return None
    if "enable_thinking" in template:
        return "qwen3"
    if "<｜" in template:
        return "deepseek-v3" if "thinking" in template else "deepseek-r1"
    return "qwen3-thinking"


class ReasoningParser:
    """Splits one answer by its markers. See :class:`sglang.parsers.output.TextParser`.

    ``inside``: thinking was opened before the first token. ``keep_markers``: the markers stay in the thoughts.
    """

    def __init__(self, form: ReasoningFormat, *, inside: bool | None = None, keep_markers: bool = False) -> None:
        self._source = Source()
        self._events: list[ParserEvent] = []
        opened = form.inside if inside is None else inside
        self._reader = _split(self._source, form, opened, keep_markers, self._thought, self._text)
        next(self._reader, None)

    def push(self, text: str) -> list[ParserEvent]:
        feed(self._source, self._reader, text)
        return self._take()

    def finish(self) -> list[ParserEvent]:
        close(self._source, self._reader)
        return self._take()

    def _take(self) -> list[ParserEvent]:
        events, self._events = self._events, []
        return events

    def _thought(self, text: str) -> None:
        self._events.append(ReasoningDelta(text))

    def _text(self, text: str) -> None:
        self._events.append(TextDelta(text))


def _split(
    src: Source, form: ReasoningFormat, inside: bool, keep_markers: bool, thought: Emit, text: Emit
) -> Reader[None]:
    lead: list[str] = []
    yield from space(src, lead.append)
    opening = yield from begins_with(src, (form.start, form.end))
    if opening == form.start:
        marker = src.take(len(opening))
        inside = True
        if keep_markers:
            thought("".join(lead) + marker)
    elif opening == form.end and not inside:
        src.take(len(opening))  # an end without a beginning: the template had opened the thinking
        if keep_markers:
            text("".join(lead) + form.end)
    elif lead:
        (thought if inside else text)("".join(lead))
    if inside:
        ended = yield from until(src, (form.end, *form.interrupts), thought)
        if ended == form.end and keep_markers:
            thought(form.end)
        elif ended is not None and ended != form.end:
            src.unread(ended)
    yield from until(src, (), text)


class PrependThink:
    """minimax-append-think: the opening marker that the template wrote is given back, nothing is split."""

    def __init__(self, form: ReasoningFormat) -> None:
        self._pending = form.start

    def push(self, text: str) -> list[ParserEvent]:
        if not text:
            return []
        text, self._pending = self._pending + text, ""
        return [TextDelta(text)]

    def finish(self) -> list[ParserEvent]:
        return []
