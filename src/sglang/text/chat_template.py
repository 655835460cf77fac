"""Chat messages to prompt text by a model's Jinja template."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import nodes

from sglang.ipc.errors import InvalidRequest
from sglang.text.template_sandbox import SandboxedTemplate
from sglang.text.tokenizer import Tokenizer

Message = dict[str, Any]

PART_JOINER = " "
"""Between the text parts of one message, for templates that take plain strings."""
_TEXT_PARTS = ("text", "input_text", "output_text")


class TemplateError(InvalidRequest):
    """The template can't be compiled, refuses these messages, or asks for too much; carries its own words."""


class ChatTemplate:
    """A compiled chat template.

    ``content_format``: "openai" when the template walks over a list of content parts, else "string".
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        self.source = source
        self._special_tokens = dict(special_tokens)
        try:
            self._template = SandboxedTemplate(
                source, {"raise_exception": _raise_exception, "strftime_now": _strftime_now}
            )
        except (jinja2.TemplateError, RuntimeError, ValueError, MemoryError) as error:
            raise TemplateError(f"the chat template can't be compiled: {_words(error)}", "chat_template") from None
        tree = self._template.tree
        self.content_format = "openai" if _loops_over(tree, "content") else "string"
        self._only_parts = self.content_format == "openai" and not _tests_string(tree)
        self._arguments_as_text = _uses_as_text(tree, "arguments")

    def render(
        self,
        messages: list[Message],
        /,
        *,
        add_generation_prompt: bool = True,
        tools: list[Any] | None = None,
        **kwargs: Any,
    ) -> str:
        """The prompt, special tokens included; ``kwargs`` are further variables of the template."""
        variables = {
            **self._special_tokens,
            "documents": None,
            **kwargs,
            "messages": messages,
            "tools": tools,
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            return self._template.render(variables)
        except Exception as error:  # whatever a template does wrong is the fault of template or messages
            raise TemplateError(f"the chat template refuses the messages: {_words(error)}", "messages") from None

    def normalize_messages(self, messages: list[Message]) -> list[Message]:
        """Copies of the messages in the shape that this template expects.

        Missing or null content becomes "". Content parts are joined by one space for string templates; a string
        becomes one part for templates that know parts only. Tool-call arguments given as JSON text become objects,
        unless the template writes them as text.
        """
        return [self._normalized(message) for message in messages]

    def _normalized(self, message: Message) -> Message:
        content = message.get("content")
        normal = {**message, "content": "" if content is None else content}
        if isinstance(content, list) and self.content_format == "string":
            normal["content"] = PART_JOINER.join(_part_text(part) for part in content)
        elif isinstance(content, str) and self._only_parts:
            normal["content"] = [{"type": "text", "text": content}]
        if normal.get("tool_calls"):
            normal["tool_calls"] = [self._tool_call(call) for call in normal["tool_calls"]]
        return normal

    def _tool_call(self, call: Any) -> Any:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or "arguments" not in function:
            return call
        arguments = function["arguments"]
        if self._arguments_as_text and not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        elif isinstance(arguments, str) and not self._arguments_as_text:
            arguments = _parsed(arguments)
        return {**call, "function": {**function, "arguments": arguments}}


def load_chat_template(server_arg: str | None, tokenizer: Tokenizer) -> ChatTemplate | None:
    """The template of ``--chat-template`` (path of a Jinja file), else the model's own; None when there is neither."""
    source = tokenizer.chat_template if server_arg is None else _read(server_arg)
    return None if source is None else ChatTemplate(source, tokenizer.special_tokens)


def _read(server_arg: str) -> str:
    path = Path(server_arg).expanduser()
    if not path.is_file():
        raise ValueError(
            f"--chat-template {server_arg!r} is not an existing file. Accepted: the path of a Jinja template "
            "(.jinja); named templates are not supported. Leave the option out to use the model's own template."
        )
    return path.read_text("utf-8")


def _raise_exception(message: str) -> None:
    """What templates call to refuse messages."""
    raise jinja2.TemplateError(message)


def _strftime_now(format: str) -> str:
    return datetime.now().strftime(format)


def _words(error: BaseException) -> str:
    """What went wrong, in one line."""
    if isinstance(error, RecursionError):
        return "it calls itself without end"
    if isinstance(error, MemoryError):
        return "it needs too much memory"
    if isinstance(error, jinja2.TemplateSyntaxError):
        return f"{error.message} (line {error.lineno})"
    return str(error) or type(error).__name__


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, dict) else None
    if isinstance(text, str) and part.get("type", "text") in _TEXT_PARTS:
        return text
    kind = part.get("type") if isinstance(part, dict) else type(part).__name__
    raise InvalidRequest(
        f"messages: a content part of type {kind!r} can't be rendered by this model's template; "
        'accepted: {"type": "text", "text": "..."}',
        "messages",
    )


def _parsed(arguments: str) -> Any:
    """The object in JSON text; text that is no object (a model may have written nonsense) stays as it is."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) else arguments


# What a template expects is read off its syntax tree; nothing is executed for it.


def _accesses(node: nodes.Node, key: str) -> bool:
    """Whether ``node`` is ``x.key`` or ``x['key']``."""
    if isinstance(node, nodes.Getattr):
        return node.attr == key
    return isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const) and node.arg.value == key


def _aliases(tree: nodes.Template, key: str) -> set[str]:
    """Variables that ``{% set name = x.key %}`` makes another name for it."""
    pairs = ((assign.target, _base(assign.node)) for assign in tree.find_all(nodes.Assign))
    return {target.name for target, value in pairs if isinstance(target, nodes.Name) and _accesses(value, key)}


def _base(node: nodes.Node) -> nodes.Node:
    """The value that filters and slices are applied to."""
    while isinstance(node, nodes.Filter) or (isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)):
        if node.node is None:  # the body of a {% filter %} block
            break
        node = node.node
    return node


def _is(node: nodes.Node, key: str, aliases: set[str]) -> bool:
    return _accesses(node, key) or (isinstance(node, nodes.Name) and node.name in aliases)


def _loops_over(tree: nodes.Template, key: str) -> bool:
    aliases = _aliases(tree, key)
    return any(_is(_base(loop.iter), key, aliases) for loop in tree.find_all(nodes.For))


def _tests_string(tree: nodes.Template) -> bool:
    """Whether it asks if something ``is string`` (or ``is iterable``, ``is sequence``): then it takes both forms."""
    return any(test.name in ("string", "iterable", "sequence", "mapping") for test in tree.find_all(nodes.Test))


def _uses_as_text(tree: nodes.Template, key: str) -> bool:
    """Whether ``x.key`` is written or concatenated as it is, and never serialised, tested or walked over."""
    aliases = _aliases(tree, key)

    def mentions(parents: Iterator[nodes.Node]) -> bool:
        return any(_is(node, key, aliases) for parent in parents for node in (parent, *parent.find_all(nodes.Node)))

    used = mentions(iter(tree.find_all((nodes.Output, nodes.Add, nodes.Concat))))
    structured = (nodes.Filter, nodes.Test, nodes.Call)
    return used and not mentions(iter(tree.find_all(structured))) and not _loops_over(tree, key)
