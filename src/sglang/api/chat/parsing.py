"""The parsers of one server, and those of one request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sglang.api.chat.constraint import Constraint
from sglang.api.chat.forced import CallGrammars
from sglang.api.chat.request import ChatRequest
from sglang.config.env import read_env
from sglang.ipc.errors import InvalidRequest
from sglang.parsers.choose import choose_reasoning, choose_tool_format
from sglang.parsers.count import ReasoningCounter
from sglang.parsers.harmony import HarmonyParser
from sglang.parsers.output import OutputParser, TextParser
from sglang.parsers.reasoning import FORMATS, PrependThink, ReasoningFormat, ReasoningParser
from sglang.parsers.registry import GPT_OSS, make_forced_parser, make_tool_parser
from sglang.parsers.tools.writer import ToolSpecs

if TYPE_CHECKING:
    from sglang.config.server_args import ServerArgs
    from sglang.processes.tokenizer.manager import TokenizerManager
    from sglang.text.tokenizer import Tokenizer

TAIL_TOKENS = 32
"""Last tokens of a prompt in which a thinking marker is looked for."""


@dataclass(frozen=True, slots=True)
class ChatPlan:
    """How one request's answers are constrained and read."""

    chat: ChatRequest
    constraint: Constraint | None
    specs: ToolSpecs | None
    """The tools whose calls are looked for; None: none are."""
    forced_list: bool
    """Calls come as the JSON list that a grammar forces."""
    tool_format: str | None
    form: ReasoningFormat | None
    thinks: bool
    """A grammar waits until the thinking has ended."""
    inside: bool
    """The prompt, or the model's habit, has opened the thinking."""
    keep_special: bool
    """Markers are special tokens, so the text has to keep those."""
    tokenizer: Tokenizer | None

    def parser(self) -> OutputParser:
        """A fresh parser for one choice."""
        separate = self.chat.separate_reasoning
        harmony = self.form is not None and self.form.kind == "harmony"
        own_calls = self.specs if not self.forced_list else None
        if harmony or (self.tool_format == GPT_OSS and own_calls is not None):
            specs = own_calls if self.tool_format == GPT_OSS else None
            reasoning: TextParser | None = HarmonyParser(separate and harmony, specs)
            own_calls = None if self.tool_format == GPT_OSS else own_calls
        else:
            reasoning = self._reasoning()
        tools: TextParser | None = None
        if self.forced_list and self.specs is not None:
            tools = make_forced_parser(self.specs)
        elif own_calls is not None and self.tool_format is not None:
            tools = make_tool_parser(self.tool_format, own_calls)
        return OutputParser(
            reasoning, tools, inline_reasoning=not separate, stream_reasoning=self.chat.stream_reasoning
        )

    def _reasoning(self) -> TextParser | None:
        if self.form is None:
            return None
        if self.form.kind == "prepend":
            return PrependThink(self.form)
        return ReasoningParser(self.form, inside=self.inside, keep_markers=not self.chat.separate_reasoning)

    def counter(self) -> ReasoningCounter | None:
        """Counts the thinking tokens of one choice; None where there is no thinking."""
        if self.form is None or self.tokenizer is None:
            return None
        return ReasoningCounter(self.form, self.tokenizer.token_bytes, self.inside)


class ChatParsers:
    """What the flags and the chat template say about thinking and tool calls."""

    def __init__(self, tm: TokenizerManager, args: ServerArgs) -> None:
        template = tm.chat_template.source if tm.chat_template is not None else None
        env = read_env()
        self._tm = tm
        self._forward_unknown = env.forward_unknown_tools
        self.tool_format = choose_tool_format(args.tool_call_parser, template)
        self._grammars = CallGrammars(self.tool_format, template or "", self._special_id, env.tool_strict_level)
        name = choose_reasoning(args.reasoning_parser, template)
        self.form = FORMATS[name] if name is not None else None
        """None where the server does not look for thinking."""

    def plan(self, chat: ChatRequest, prompt: list[int], template_kwargs: Mapping[str, Any]) -> ChatPlan:
        """Settle everything about a checked request. Raises InvalidRequest where constraints exclude each other."""
        constraint, forced_list, looks = self._calls(chat)
        inside, closed = self._thinking(chat, prompt)
        form = self.form
        on = form is not None and form.is_on(template_kwargs) and not closed
        limit = None if chat.parallel_tool_calls else 1
        specs = ToolSpecs.of(chat.tools, self._forward_unknown, limit) if looks else None
        return ChatPlan(
            chat=chat,
            constraint=constraint,
            specs=specs,
            forced_list=forced_list,
            tool_format=self.tool_format,
            form=form,
            # Where the thinking's end is not what stands before a call, the calls' grammar covers the thinking too.
            thinks=(on or inside) and not (looks and self.tool_format == GPT_OSS and constraint is not chat.constraint),
            inside=inside or (on and form is not None and form.inside),
            keep_special=specs is not None or self._special_markers(),
            tokenizer=self._tm.tokenizer,
        )

    def _calls(self, chat: ChatRequest) -> tuple[Constraint | None, bool, bool]:
        """The grammar, whether calls come as a forced list, and whether calls are looked for."""
        mode = chat.tool_choice.mode
        if not chat.tools or mode == "none":
            return chat.constraint, False, False
        if mode in ("required", "named"):
            if chat.constraint is not None and chat.constraint[0] in ("regex", "ebnf"):
                raise InvalidRequest(
                    f"tool_choice: a call that is {mode} can't also follow {chat.constraint[0]}; leave one of them out",
                    "tool_choice",
                )
            # A response_format rules the answer's text, and a forced call leaves none.
            constraint, native = self._grammars.forced(chat)
            return constraint, not native, True
        return chat.constraint or self._grammars.strict(chat), False, self.tool_format is not None

    def _special_id(self, text: str) -> int | None:
        """The id of a special token with exactly this text: one that is no text to a grammar."""
        tokenizer = self._tm.tokenizer
        number = tokenizer.special_token_id(text) if tokenizer is not None else None
        return number if tokenizer is not None and number in tokenizer.special_ids else None

    def _thinking(self, chat: ChatRequest, prompt: list[int]) -> tuple[bool, bool]:
        """Whether the prompt has opened the thinking, and whether it has closed it."""
        form, tokenizer = self.form, self._tm.tokenizer
        if form is None or tokenizer is None:
            return False, False
        if chat.continue_final_message and chat.messages:
            content = chat.messages[-1].get("content")
            if isinstance(content, str) and (opened := content.rfind(form.start)) >= 0:
                is_open = opened > content.rfind(form.end)
                return is_open, not is_open
        tail = tokenizer.decode(prompt[-TAIL_TOKENS:], skip_special_tokens=False).rstrip()
        return tail.endswith(form.start.rstrip()), tail.endswith(form.end)

    def _special_markers(self) -> bool:
        """Whether a marker of the thinking is a special token, which plain text would lack."""
        tokenizer = self._tm.tokenizer
        if self.form is None or tokenizer is None:
            return False
        if self.form.kind == "harmony":
            return True
        pieces = tokenizer.encode(self.form.start + self.form.end, add_special_tokens=False)
        return not tokenizer.special_ids.isdisjoint(pieces)


def whole_parser(reasoning: str | None) -> OutputParser:
    """A parser that only splits thoughts off, by the name of their format."""
    if reasoning is None:
        return OutputParser()
    form = FORMATS[reasoning]
    if form.kind == "harmony":
        return OutputParser(HarmonyParser())
    return OutputParser(PrependThink(form) if form.kind == "prepend" else ReasoningParser(form))
