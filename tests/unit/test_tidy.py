"""Rules for files and modules that no linter checks; CONTRIBUTING.md has the reasons."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.sources import PACKAGES, ROOT, TESTS, modules

#: It reads the sources of the packages.
pytestmark = pytest.mark.sources

PACKAGE = ROOT / "tandem_kafka"
TESTING = ROOT / "packages" / "testing" / "tandem_kafka_testing"

VAGUE_NAMES = {"utils.py", "util.py", "helpers.py", "common.py", "misc.py"}
NAMED_FILE = re.compile(r"`([\w/]+\.py)`")
SEAM = {"time", "threading", "queue", "random"}
BEHIND_THE_SEAM = {
    *(PACKAGE / "runtime").glob("*.py"),
    *(TESTING / "kafka").glob("*.py"),
    *(ROOT / "packages" / "cli" / "tandem_kafka_cli" / "demo").glob("*.py"),
    TESTING / "served.py",
    TESTING / "serving.py",
    PACKAGE / "workers" / "threads.py",
}


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def test_a_file_is_named_after_its_subject() -> None:
    found = modules(*PACKAGES, *TESTS, ROOT / "benchmarks", ROOT / "examples")
    assert [path for path in found if path.name in VAGUE_NAMES] == []


def test_a_module_says_what_it_is_for() -> None:
    silent = [path for path in modules() if not ast.get_docstring(parse(path))]
    assert silent == [], "write the module's docstring"


def test_text_names_files_that_exist() -> None:
    """In the docstring of a folder, a name without folders is that of a file of this one."""
    found = modules(*PACKAGES, *TESTS)
    named = (*found, *modules(ROOT / "examples"))
    paths = [f"/{path.relative_to(ROOT).as_posix()}" for path in named]
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in (*found, ROOT / "DESIGN.md", ROOT / "CONTRIBUTING.md")
        for name in NAMED_FILE.findall(path.read_text(encoding="utf-8"))
        if not any(
            each.endswith(f"/{name}")
            for each in paths
            if "/" in name
            or path.name != "__init__.py"
            or each.startswith(f"/{path.parent.relative_to(ROOT).as_posix()}/")
        )
    ]
    assert missing == []


#: Calls that know how many items they have.
SIZED = {"fromkeys", "items", "keys", "sorted", "values"}
OF_THE_NETWORK_THREAD = tuple(
    PACKAGE / name
    for name in ("engine", "events", "network", "records", "request_managers", "state", "wire")
)


def _grows_a_tuple(node: ast.AST) -> bool:
    """Whether a call makes a tuple before it knows the size; see `replaced`."""
    if not isinstance(node, ast.Call) or not node.args:
        return False
    if not isinstance(node.func, ast.Name) or node.func.id != "tuple":
        return False
    given = node.args[0]
    if isinstance(given, ast.Call):
        name = given.func
        return getattr(name, "id", getattr(name, "attr", "")) not in SIZED
    return isinstance(given, ast.GeneratorExp)


def _replaces(node: ast.AST) -> bool:
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return called and node.func.attr == "_replace" and bool(node.keywords)  # type: ignore[attr-defined]


def test_no_profiler_finds_an_unfinished_tuple() -> None:
    assert all(folder.is_dir() for folder in OF_THE_NETWORK_THREAD)
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"  # type: ignore[attr-defined]
        for path in modules()
        for node in ast.walk(parse(path))
        if _grows_a_tuple(node)
        or (
            _replaces(node)
            and "oidc" not in path.parts  # a thread of its own
            and any(path.is_relative_to(folder) for folder in OF_THE_NETWORK_THREAD)
        )
    ]
    assert found == [], "write tuple([...]), (*iterator,) or replaced(...)"


def test_time_threads_and_chance_come_from_the_runtime() -> None:
    others = [
        path for path in modules() if path not in BEHIND_THE_SEAM and imported(parse(path)) & SEAM
    ]
    assert others == [], "use tandem_kafka.runtime instead"
