"""minimax-m2: ``<invoke name="N"><parameter name="P">value</parameter></invoke>`` in ``<minimax:tool_call>``."""

from __future__ import annotations

from sglang.parsers.source import Reader, Source
from sglang.parsers.tools.invoke import InvokeTags, invoke_calls
from sglang.parsers.tools.writer import CallWriter

# Without the block's begin tag an <invoke is only text, but models do open calls one after the other inside one block.
TAGS = InvokeTags(("<minimax:tool_call>",), "<invoke ", "</invoke>", "<parameter ", "</parameter>")


def read(src: Source, out: CallWriter) -> Reader[None]:
    yield from invoke_calls(src, out, TAGS)
