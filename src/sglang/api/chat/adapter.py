"""The adapter that a model name may carry."""

from __future__ import annotations


def split_model(model: str, served: str) -> tuple[str, str | None]:
    """``base:adapter`` → (base, adapter).

    The exact served name is never split, even if it holds a colon; a name that begins with it is split behind it; any
    other name at its first colon. ``base:`` without an adapter means the base model.
    """
    if model == served:
        return model, None
    if model.startswith(served + ":"):
        return served, model[len(served) + 1 :] or None
    base, _, adapter = model.partition(":")
    return base, adapter or None
