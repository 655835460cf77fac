"""llama3: ``<|python_tag|>{"name": ..., "parameters": {...}}``, or the bare object; ``;`` between several."""

from __future__ import annotations

from sglang.parsers.source import Reader, Source, accept, ignore, lookahead, peek, space, until
from sglang.parsers.tools.json_calls import call_name, json_call
from sglang.parsers.tools.writer import CallWriter

TAG = "<|python_tag|>"


def read(src: Source, out: CallWriter) -> Reader[None]:
    yield from space(src, out.text)
    while True:
        if (yield from peek(src)) == "{":
            yield from _bare(src, out)
        if (yield from until(src, (TAG,), out.text)) is None:
            return
        yield from space(src)
        if (yield from peek(src)) in ("{", ""):
            yield from _calls(src, out)
        # Anything else behind the tag is code for a built-in interpreter: text, as far as we go.


def _bare(src: Source, out: CallWriter) -> Reader[None]:
    """An object without the tag is a call only if it names a tool; otherwise it is an answer in JSON."""
    name = yield from lookahead(src, call_name)
    if name is not None and name in out.tools.parameters:
        yield from _calls(src, out)


def _calls(src: Source, out: CallWriter) -> Reader[None]:
    while True:
        whole = yield from json_call(src, out)
        if not whole:
            # Where the next object begins can't be told; the next tag can.
            yield from _to_tag(src)
            return
        yield from space(src)
        if (yield from accept(src, ";")) or (yield from accept(src, ",")):
            yield from space(src)
        yield from accept(src, TAG)
        yield from space(src)
        if (yield from peek(src)) != "{":
            return


def _to_tag(src: Source) -> Reader[None]:
    if (yield from until(src, (TAG,), ignore)) is not None:
        src.unread(TAG)
