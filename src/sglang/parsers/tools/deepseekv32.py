"""deepseekv32, deepseekv4, deepseekv41: ``<｜DSML｜invoke name="N"><｜DSML｜parameter name="P" string="true">value``

The ``string`` attribute says whether a value is text or JSON.
"""

from __future__ import annotations

from sglang.parsers.source import Reader, Source
from sglang.parsers.tools.invoke import InvokeTags, invoke_calls
from sglang.parsers.tools.writer import CallWriter


def tags(mark: str) -> InvokeTags:
    """The tags with the mark that stands before each of their names."""
    return InvokeTags(
        (f"<{mark}function_calls>", f"<{mark}tool_calls>"),
        f"<{mark}invoke ",
        f"</{mark}invoke>",
        f"<{mark}parameter ",
        f"</{mark}parameter>",
    )


TAGS = tags("｜DSML｜")


def read(src: Source, out: CallWriter) -> Reader[None]:
    yield from invoke_calls(src, out, TAGS)
