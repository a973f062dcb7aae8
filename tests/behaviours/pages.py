"""The two pages that are made from the markers: behaviours, and sections of design documents."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from tests.behaviours.markers import ROOT, Marked, marked_tests

#: What stands above this line in a page is written by hand.
GENERATED: Final = "<!-- `python -m tests.behaviours` writes everything below this line. -->\n"

BEHAVIOURS: Final = ROOT / "docs" / "explained" / "behaviours.md"
DESIGNS: Final = ROOT / "tests" / "simulation" / "coverage.md"

NOT_TESTED: Final = "Not tested yet."


def data(name: str) -> dict[str, Any]:
    """Returns the contents of a data file of this package."""
    return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))


def pages() -> dict[Path, str]:
    """Returns each page as it should be."""
    tests = marked_tests()
    return {
        path: _by_hand(path) + GENERATED + "\n" + "\n".join(lines) + "\n"
        for path, lines in ((BEHAVIOURS, _behaviours(tests)), (DESIGNS, _designs(tests)))
    }


def _by_hand(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition(GENERATED)[0]


def _behaviours(tests: list[Marked]) -> Iterator[str]:
    for index, section in enumerate(data("behaviours.toml")["section"]):
        if index:
            yield ""
        yield f"## {section['title']}"
        for number, sentence in section["behaviours"].items():
            yield from ("", f"**{number}.** {sentence}", "")
            found = [(test.path, test.test) for test in tests if _checks(test, int(number))]
            reason = section.get("untested", {}).get(number, NOT_TESTED)
            yield from (
                (f"- `{path}`: {_names(names)}" for path, names in _grouped(found).items())
                if found
                else (f"- {reason}",)
            )


def _checks(test: Marked, number: int) -> bool:
    return test.kind == "behaviour" and number in test.values


def _designs(tests: list[Marked]) -> Iterator[str]:
    yield "| document, section | tests |"
    yield "|---|---|"
    for row in data("designs.toml")["section"]:
        about = f" ({row['about']})" if "about" in row else ""
        document = row["documents"].partition(",")[0]
        found = [(_place(test.path), test.test) for test in tests if _covers(test, document, row)]
        cell = "; ".join(f"{place}: {_names(names)}" for place, names in _grouped(found).items())
        yield f"| {row['documents']} {row['name']}{about} | {cell or NOT_TESTED} |"


def _covers(test: Marked, document: str, row: dict[str, str]) -> bool:
    return test.kind == "design" and test.values[0] == document and row["name"] in test.values[1:]


def _place(path: str) -> str:
    """Returns where the test runs, in the words of the page."""
    _, folder, name, *_ = path.split("/")
    on_both = folder == "integration" and name.startswith(("test_agreement", "test_coordinator_"))
    return "both" if on_both else folder


def _grouped(found: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for group, test in found:
        groups.setdefault(group, []).append(test)
    return dict(sorted(groups.items()))


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
