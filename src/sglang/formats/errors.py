"""The one error of this floor: a file that can't be used as it is."""

from __future__ import annotations


class FormatError(ValueError):
    """A model file is damaged, incomplete or of an unsupported kind.

    The message names the file, the key, tensor or byte offset at fault, and what to do about it.
    """
