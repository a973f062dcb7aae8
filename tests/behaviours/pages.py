"""What the manual has of the markers: behaviours, and sections of design documents."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from tests.behaviours.markers import Marked, marked_tests

NOT_TESTED: Final = "Not tested yet."


def data(name: str) -> dict[str, Any]:
    """Returns the contents of a data file of this package."""
    return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


def behaviours() -> str:
    """Returns the numbered behaviours, with the tests of each."""
    tests = marked_tests()
    lines: list[str] = []
    for section in data("behaviours.toml")["section"]:
        lines += [f"## {section['title']}", ""]
        for number, sentence in section["behaviours"].items():
            lines += [f"**{number}.** {sentence}", ""]
            found = [(test.path, test.test) for test in tests if _checks(test, int(number))]
            reason = section.get("untested", {}).get(number, NOT_TESTED)
            places = [f"- `{path}`: {_names(names)}" for path, names in _grouped(found).items()]
            lines += [*(places or [f"- {reason}"]), ""]
    return "\n".join(lines)


def _checks(test: Marked, number: int) -> bool:
    return test.kind == "behaviour" and number in test.values


def designs() -> str:
    """Returns the sections of design documents, with the tests of each."""
    tests = marked_tests()
    lines = ["| document, section | tests |", "|---|---|"]
    for row in data("designs.toml")["section"]:
        about = f" ({row['about']})" if "about" in row else ""
        document = row["documents"].partition(",")[0]
        found = [(_place(test.path), test.test) for test in tests if _covers(test, document, row)]
        cell = "; ".join(f"{place}: {_names(names)}" for place, names in _grouped(found).items())
        lines.append(f"| {row['documents']} {row['name']}{about} | {cell or NOT_TESTED} |")
    return "\n".join(lines) + "\n"


def _covers(test: Marked, document: str, row: dict[str, str]) -> bool:
    return test.kind == "design" and test.values[0] == document and row["name"] in test.values[1:]


def _place(path: str) -> str:
    """Returns where the test runs, in the words of the page."""
    _, folder, *_, name = path.split("/")
    on_both = folder == "integration" and name.startswith(("test_agreement", "test_coordinator_"))
    return "both" if on_both else folder


def _grouped(found: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for group, test in found:
        groups.setdefault(group, []).append(test)
    return dict(sorted(groups.items()))


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
