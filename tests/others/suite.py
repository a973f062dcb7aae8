"""A client's own tests, their results, and what is wrong with the results."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LeftOut", "Suite", "problems", "results"]


@dataclass(frozen=True)
class LeftOut:
    """A test that does not pass with this consumer.

    Attributes:
        reason: Why.
        sometimes: It passes in some runs.
    """

    reason: str
    sometimes: bool = False


@dataclass(frozen=True)
class Suite:
    """The tests of a client that concern this project.

    Attributes:
        package: The client's name in its registry.
        control: Where they must pass first.
        tests: The number of tests in each file.
        left_out: Those that do not pass, by file and name, as in `test/test_a.py::test_b[1]`.
    """

    package: str
    control: str
    tests: Mapping[str, int]
    left_out: Mapping[str, LeftOut]


def results(report: Path) -> dict[str, str]:
    """Read pytest's report in JUnit's XML: "passed", "failed" or "skipped" for each test."""
    found: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - pytest has just written it
        test = f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name']}"
        kinds = {child.tag for child in case}
        verdict = "failed" if kinds & {"failure", "error"} else "passed"
        if verdict == "passed" and "skipped" in kinds:
            verdict = "skipped"
        # A test that passes, and fails while its fixtures end, is there twice.
        if found.get(test) != "failed":
            found[test] = verdict
    return found


def problems(suite: Suite, original: Mapping[str, str], ours: Mapping[str, str]) -> Iterator[str]:
    """Say what differs from the table: in the results of the control, and in those here."""
    yield from _of_the_table(suite, ours)
    for test in original.keys() ^ ours.keys():
        yield f"{test} ran once of two times"
    for test, verdict in original.items():
        if verdict != "passed" and test not in suite.left_out:
            yield f"{test} {verdict} {suite.control}"
    for test, verdict in ours.items():
        left_out = suite.left_out.get(test)
        if left_out is None and verdict != "passed":
            yield f"{test} {verdict}"
        elif left_out and not left_out.sometimes and verdict == "passed":
            yield f"{test} is left out, and passed"


def _of_the_table(suite: Suite, ours: Mapping[str, str]) -> Iterator[str]:
    for file, expected in suite.tests.items():
        found = sum(test.startswith(f"{file}::") for test in ours)
        if found != expected:
            yield f"{file} has {found} tests, and {expected} in the table"
    for test in suite.left_out.keys() - ours.keys():
        yield f"{test} is left out, and does not exist"
