"""The loader is tested with the tiny checkpoints of the models."""

from unit.models.conftest import _no_grad, reference

__all__ = ["_no_grad", "reference"]
