"""The modules of the packages have an order: no import circles, not even for type checkers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.sources import PACKAGES

#: It reads the sources of the packages.
pytestmark = pytest.mark.sources


def modules(*folders: Path) -> dict[str, Path]:
    """Return the files of packages by the names of their modules."""
    found = {}
    for folder in folders:
        for path in sorted([*folder.rglob("*.pyi"), *folder.rglob("*.py")]):
            parts = path.relative_to(folder.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path) -> Iterator[str]:
    """Yield the names that a file imports: modules, and modules with a name from them."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def import_graph(*folders: Path) -> dict[str, set[str]]:
    """Return the modules that each module of some packages imports."""
    known = modules(*folders)
    graph: dict[str, set[str]] = {name: set() for name in known}
    for name, path in known.items():
        for target in imported(path):
            module = target if target in known else target.rpartition(".")[0]
            if module in known and module != name:
                graph[name].add(module)
    return graph


def test_no_module_imports_itself_through_others() -> None:
    graph = import_graph(*PACKAGES)
    assert len(graph) > 200
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"import circle: {' <- '.join(error.args[1])}")


def test_a_circle_is_found(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("from package.first import name\n")
    (package / "first.py").write_text("def name():\n    from package import second\n")
    (package / "second.py").write_text("import package\n")
    with pytest.raises(CycleError):
        TopologicalSorter(import_graph(package)).prepare()
