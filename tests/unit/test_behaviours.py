"""Markers name existing behaviours and sections."""

from __future__ import annotations

import re
from itertools import chain

import pytest

from tests.behaviours.markers import files, marked_tests
from tests.behaviours.pages import data

#: It reads the sources of the package.
pytestmark = pytest.mark.sources

SECTIONS = data("behaviours.toml")["section"]
ROWS = data("designs.toml")["section"]


def test_every_marker_is_read() -> None:
    """A marker in another place than above a test function would be missed."""
    sources = "".join(path.read_text(encoding="utf-8") for path in files())
    written = re.findall(r"^\s*@pytest\.mark\.(?:behaviour|design)\(", sources, re.MULTILINE)
    assert len(marked_tests()) == len(written) > 600
    assert "pytestmark = pytest.mark." + "behaviour" not in sources


def _marked_behaviours() -> set[int]:
    return {n for test in marked_tests() if test.kind == "behaviour" for n in test.values}


def test_every_behaviour_of_a_marker_exists() -> None:
    known = {int(number) for section in SECTIONS for number in section["behaviours"]}
    assert known == set(range(1, len(known) + 1)), "the numbers have no gap"
    assert _marked_behaviours() <= known


def test_a_tested_behaviour_needs_no_reason() -> None:
    reasons = {int(number) for section in SECTIONS for number in section.get("untested", {})}
    assert not _marked_behaviours() & reasons


def test_every_section_of_a_marker_exists() -> None:
    known = {(row["documents"].partition(",")[0], row["name"]) for row in ROWS}
    assert len(known) == len(ROWS)
    marked = {
        (test.values[0], name)
        for test in marked_tests()
        if test.kind == "design"
        for name in test.values[1:]
    }
    assert marked == known, "a section without a test, or a marker without a section"


def test_numbers_are_not_part_of_a_name() -> None:
    """A number of a behaviour belongs into the marker."""
    names = {test.test for test in marked_tests()}
    assert not {name for name in names if re.match(r"test_\d", name)}


def test_the_tests_beside_those_of_java_exist() -> None:
    cases = data("java_share_tests.toml")
    verdicts = {verdict for each in cases.values() for verdict in each}
    assert verdicts == {"tested", "differs", "other"}
    sources = "".join(path.read_text(encoding="utf-8") for path in files())
    existing = set(re.findall(r"^(?:async )?def (test_\w+)\(", sources, re.MULTILINE))
    for each in cases.values():
        for verdict, texts in each.items():
            named = [re.findall(r"\btest_\w+", text) for text in texts.values()]
            assert existing.issuperset(chain(*named))
            assert verdict == "other" or all(named), "each case has a test"
