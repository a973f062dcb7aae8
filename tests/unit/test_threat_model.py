"""The threat model and SECURITY.md name only tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.sources import ROOT

pytestmark = pytest.mark.sources

PAGE = ROOT / "docs" / "explained" / "threat-model.md"
_TEST = re.compile(r"`((?:packages/\w+/)?tests/[\w/]+\.py)::(\w+)`")
_ROW = re.compile(r"^\| (?!claim \||---)(.+) \| (.+) \|$", re.MULTILINE)


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_claim_names_a_test_or_says_none() -> None:
    rows = _ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len(rows) > 15
    for claim, proof in rows:
        assert proof.startswith("none") or _TEST.findall(proof), claim


def test_the_named_tests_exist() -> None:
    named = _TEST.findall(PAGE.read_text(encoding="utf-8"))
    missing = [
        f"{path}::{test}"
        for path, test in named
        if not (ROOT / path).is_file() or test not in functions(ROOT / path)
    ]
    assert missing == []


def test_the_security_policy_refers_to_the_page() -> None:
    policy = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert PAGE.relative_to(ROOT).as_posix() in policy
