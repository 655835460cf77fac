"""Tiny checkpoints of every family, as the models' tests make them."""

from unit.models.conftest import reference

__all__ = ["reference"]
