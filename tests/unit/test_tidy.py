"""Rules for files and modules that no linter checks; CONTRIBUTING.md has the reasons."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

#: It reads the sources of the package.
pytestmark = pytest.mark.sources

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tandem_kafka"

VAGUE_NAMES = {"utils.py", "util.py", "helpers.py", "common.py", "misc.py"}
SEAM = {"time", "threading", "queue", "random"}
BEHIND_THE_SEAM = {
    *(PACKAGE / "runtime").glob("*.py"),
    *(PACKAGE / "testing" / "kafka").glob("*.py"),
    PACKAGE / "testing" / "served.py",
    PACKAGE / "testing" / "serving.py",
    PACKAGE / "workers" / "threads.py",
}


def sources(*folders: str) -> list[Path]:
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path for path in found if "__pycache__" not in path.parts)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


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


@pytest.mark.parametrize(
    "path", sources("tandem_kafka", "tests", "benchmarks", "examples"), ids=relative
)
def test_a_file_is_named_after_its_subject(path: Path) -> None:
    assert path.name not in VAGUE_NAMES


@pytest.mark.parametrize("path", sources("tandem_kafka"), ids=relative)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(parse(path)), "write the module's docstring"


@pytest.mark.parametrize("path", sources("tandem_kafka"), ids=relative)
def test_time_threads_and_chance_come_from_the_runtime(path: Path) -> None:
    if path not in BEHIND_THE_SEAM and path.parent != PACKAGE / "demo":
        assert not imported(parse(path)) & SEAM, "use tandem_kafka.runtime instead"
