"""The figures of benchmarks/results in the manual."""

from __future__ import annotations

import re
from typing import Final

import pytest

from benchmarks.publish import two_digits
from tests.unit.messages import ROOT

PAGE: Final = (ROOT / "docs" / "numbers" / "results.md").read_text(encoding="utf-8")
_SOURCE: Final = re.compile(r"`(benchmarks/results/[\w.-]+\.md)`")
_NUMBER: Final = re.compile(r"\d[\d,]*(?:\.\d+)?")


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (94.9, "95"),
        (994_999, "990,000"),
        (995_001, "1.0 M"),
        (1_249_000, "1.2 M"),
        (12_345_678, "12 M"),
    ],
)
def test_rates_have_two_digits(rate: float, text: str) -> None:
    assert two_digits(rate) == text


def test_the_figures_of_spark_are_those_of_the_file() -> None:
    _, _, text = PAGE.partition("\n## Spark\n")
    text, _, _ = text.partition("\n## ")
    known = set(_NUMBER.findall((ROOT / _SOURCE.findall(text)[0]).read_text(encoding="utf-8")))
    rows = re.findall(r"^\|(.+)\|$", text, re.MULTILINE)
    figures = [figure for row in rows for figure in _NUMBER.findall(row.partition("|")[2])]
    assert len(figures) > 40
    assert set(figures) <= known


def test_the_files_exist() -> None:
    for name in set(_SOURCE.findall(PAGE)):
        assert (ROOT / name).is_file(), name
