"""Tool-call formats, one file each; ``registry`` knows their names."""
