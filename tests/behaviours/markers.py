"""The markers `behaviour` and `design` of all tests, read from the sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.sources import ROOT, TESTS, modules


class Marked(NamedTuple):
    """One marker of one test."""

    path: str
    test: str
    kind: str
    values: tuple[object, ...]


@cache
def marked_tests() -> list[Marked]:
    """Returns the markers of all tests, in the order of files and of tests in them."""
    return [each for path in files() for each in _of_file(path)]


def files() -> list[Path]:
    """Returns the files of tests."""
    return [path for path in modules(*TESTS) if path.name.startswith("test_")]


def _of_file(path: Path) -> Iterator[Marked]:
    name = path.relative_to(ROOT).as_posix()
    for node in ast.parse(path.read_text(encoding="utf-8"), name).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            for kind, values in _markers(node):
                yield Marked(name, node.name, kind, values)


def _markers(function: ast.FunctionDef) -> Iterator[tuple[str, tuple[object, ...]]]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call):
            kind = ast.unparse(decorator.func).removeprefix("pytest.mark.")
            if kind in {"behaviour", "design"}:
                yield kind, tuple(ast.literal_eval(each) for each in decorator.args)
