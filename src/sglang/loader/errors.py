"""The one error of this floor."""

from __future__ import annotations


class LoadError(ValueError):
    """A checkpoint that doesn't fit its model. The message names every tensor at fault."""
