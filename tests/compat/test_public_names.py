"""The promise about import paths."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

import sglang

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROMISES = tomllib.loads((Path(__file__).parent / "public_names.toml").read_text())
PAIRS = [pair for tier in PROMISES.values() for pair in tier.items()]


def find(path: str) -> object:
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize(("old", "home"), PAIRS, ids=[old for old, _ in PAIRS])
def test_old_path_and_home_are_the_same_object(old: str, home: str) -> None:
    assert find(old) is find(home)


def test_top_level_names() -> None:
    assert sorted(sglang.__all__) == ["Engine", "ServerArgs", "__version__"]
    assert dir(sglang) == sorted(sglang.__all__)


def test_names_of_later_say_so() -> None:
    with pytest.raises(AttributeError, match=r"sglang\.gen is not available yet"):
        _ = sglang.gen
    with pytest.raises(ImportError):
        exec("from sglang import function")


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = sglang.nonsense
