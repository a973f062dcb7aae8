"""docs/numbers/results.md has the figures of benchmarks/results."""

from __future__ import annotations

import re
from typing import Final

from tests.unit.messages import ROOT

PAGE: Final = (ROOT / "docs" / "numbers" / "results.md").read_text(encoding="utf-8")
_SOURCE: Final = re.compile(r"`(benchmarks/results/[\w.-]+\.md)`")
_NUMBER: Final = re.compile(r"\d[\d,]*(?:\.\d+)?")


def test_the_figures_are_those_of_the_files() -> None:
    checked = 0
    for section in PAGE.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        source = re.search(r"Source: `([^`]+)`", text)
        if source is None:
            continue
        known = set(_NUMBER.findall((ROOT / source[1]).read_text(encoding="utf-8")))
        for row in re.findall(r"^\|(.+)\|$", text, re.MULTILINE):
            _, *cells = row.split("|")
            for figure in _NUMBER.findall(" ".join(cells)):
                assert figure in known, f"{title}: {figure} is not in {source[1]}"
                checked += 1
    assert checked > 100


def test_the_files_exist() -> None:
    for name in set(_SOURCE.findall(PAGE)):
        assert (ROOT / name).is_file(), name
