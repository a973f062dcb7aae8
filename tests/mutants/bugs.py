"""The lists of bugs: what is written instead of what, and which tests should find it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LISTS = sorted(Path(__file__).parent.glob("*.toml"))


@dataclass(frozen=True)
class Bug:
    """A bug to plant.

    Attributes:
        id: Its name, in all lists.
        room: What it is about.
        file: Where it is planted.
        old: What stands there, once.
        new: What is written instead.
        loses: What a user loses.
        tests: The tests that should find it: files, folders or node ids, most specific first.
        needs: The package that these tests need and that may not be installed, or "".
    """

    id: str
    room: str
    file: str
    old: str
    new: str
    loses: str
    tests: tuple[str, ...]
    needs: str = ""

    @property
    def is_rust(self) -> bool:
        """Whether the native extension must be built with it."""
        return self.file.startswith("rust/")


def bugs_of(path: Path) -> list[Bug]:
    """Read a list. A bug without tests of its own has those of its room."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return [_bug(row, table["rooms"][row["room"]]) for row in table["bugs"]]


def _bug(row: dict[str, Any], room: dict[str, Any]) -> Bug:
    tests = tuple(row.get("tests", room["tests"]))
    return Bug(**{**row, "tests": tests, "needs": room.get("needs", "")})
