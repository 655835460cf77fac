"""Tiny checkpoints, made once per session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from unit.models.tiny import FAMILIES, random_model

Reference = Callable[[str], tuple[Any, Path]]


@pytest.fixture(autouse=True)
def _no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """``reference(family)`` -> (transformers model in float32, its checkpoint folder)."""
    made: dict[str, tuple[Any, Path]] = {}

    def make(family: str) -> tuple[Any, Path]:
        if family not in made:
            config_class, settings = FAMILIES[family]
            folder = tmp_path_factory.mktemp(family)
            model = random_model(config_class(**settings))
            model.save_pretrained(folder)
            made[family] = (model, folder)
        return made[family]

    return make
