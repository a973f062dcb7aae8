"""The pages with figures have those of benchmarks/results."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest

from benchmarks.publish import CHARTS, PAGES, chart, filled_in, two_digits
from tests.unit.messages import ROOT

PAGE: Final = (ROOT / "docs" / "numbers" / "results.md").read_text(encoding="utf-8")
_SOURCE: Final = re.compile(r"`(benchmarks/results/[\w.-]+\.md)`")
_NUMBER: Final = re.compile(r"\d[\d,]*(?:\.\d+)?")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_figures_are_those_of_the_results(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert filled_in(text) == text, "run python -m benchmarks.publish"


@pytest.mark.parametrize("path", CHARTS, ids=lambda path: path.stem)
def test_the_charts_are_those_of_the_results(path: Path) -> None:
    expected = chart(*CHARTS[path])
    assert path.read_text(encoding="utf-8") == expected, "run python -m benchmarks.publish"


@pytest.mark.parametrize("file", ["results", "ways"])
def test_the_readme_says_how_its_figures_were_measured(file: str) -> None:
    path = ROOT / "benchmarks" / "results" / f"{file}.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    assert (content["plan"]["runs"], content["machine"]["cores"]) == (5, "2")
    version = content["machine"]["tandem-kafka"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"Medians of five runs of version {version} on two cores" in text


def test_figures_without_an_end_leave_the_page_as_it_is() -> None:
    """The next end is another table's, and what people wrote is between."""
    text = "<!-- overview -->\nold\n\nWords.\n\n<!-- overview -->\nold\n<!-- end -->\n"
    with pytest.raises(ValueError, match="have an end"):
        filled_in(text)


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
