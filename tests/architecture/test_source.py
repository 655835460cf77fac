"""Rules about the text of the package: sizes, names, and what no module may do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "sglang"
FILES = sorted(SOURCE.rglob("*.py"))

MAX_LINES = 500
LONGER: dict[str, tuple[int, str]] = {}
"""Files that may be longer: name → (lines, reason)."""

ATTIC_NAMES = {"utils", "util", "common", "helpers", "helper", "misc", "stuff"}
OLD_ADDRESSES = {"srt/utils.py"}
"""Users import from there; the file holds no code of its own."""

NEVER_IMPORTED = {"pickle", "cPickle", "_pickle", "marshal", "dill", "cloudpickle", "shelve"}
NEVER_CALLED = {"eval", "exec", "compile", "__import__"}


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def imports_of(tree: ast.AST) -> Iterator[str]:
    """Every module name that an import statement anywhere in the file mentions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_there_are_files() -> None:
    assert len(FILES) > 50


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_file_follows_the_rules(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    lines = text.count("\n")
    assert lines <= LONGER.get(name_of(path), (MAX_LINES, ""))[0], f"{lines} lines; split it or give a reason"
    if name_of(path) not in OLD_ADDRESSES:
        assert path.stem not in ATTIC_NAMES, "name it after what it holds"
    modules = {module.split(".")[0] for module in imports_of(tree)}
    assert not modules & NEVER_IMPORTED, "records travel as MessagePack; unpickling runs code"
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & NEVER_CALLED, "text is data, never code"


@pytest.mark.parametrize("path", [path for path in FILES if path.name == "__init__.py"], ids=name_of)
def test_package_files_are_empty(path: Path) -> None:
    """Importing one module of a folder must not load its neighbours."""
    if path.parent == SOURCE:
        return
    body = ast.parse(path.read_text()).body
    assert all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in body)


@pytest.mark.parametrize("path", sorted((SOURCE / "srt").rglob("*.py")), ids=name_of)
def test_old_addresses_only_point(path: Path) -> None:
    body = ast.parse(path.read_text()).body[1:]
    assert path.read_text().count("\n") <= 15
    for node in body:
        assert isinstance(node, ast.ImportFrom)
        assert [alias.asname for alias in node.names] == [alias.name for alias in node.names]


def test_one_place_makes_jinja_environments() -> None:
    """The sandbox and its limits are set up once; a second environment would go without."""
    makers = {name_of(path) for path in FILES if re.search(r"\b(Sandboxed)?Environment\(", path.read_text())}
    assert len(makers) <= 1, makers


def test_remote_code_is_never_trusted() -> None:
    for path in FILES:
        assert "trust_remote_code=True" not in path.read_text(), name_of(path)


def test_the_allow_list_of_long_files_is_not_stale() -> None:
    for name in LONGER:
        assert (SOURCE / name).read_text().count("\n") > MAX_LINES, f"{name} is short now; take it off the list"
