"""Tool-call formats, one file each; ``sglang.parsers.registry`` knows their names."""
