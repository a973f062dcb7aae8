"""The film of a command: what fails is not shown, and each cell of the screen has its place."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")


class Screen:
    """Shows all output in its first line, or what a test puts into its cells."""

    columns, lines = 112, 30

    def __init__(self) -> None:
        blank = SimpleNamespace(data=" ", fg="default", bold=False)
        self.buffer: Any = defaultdict(lambda: defaultdict(lambda: blank))
        self.output = b""

    def show(self, *cells: str, colour: str = "default") -> None:
        """Put characters into the first cells."""
        for column, data in enumerate(cells):
            self.buffer[0][column] = SimpleNamespace(data=data, fg=colour, bold=False)

    def feed(self, data: bytes) -> None:
        """Show output; a form feed clears the screen."""
        self.output = (self.output + data).rpartition(b"\f")[2]
        self.buffer.clear()
        self.show(*self.output.decode().strip())


def recorded(*command: str) -> Any:
    from release.record import taken

    screen = Screen()
    return list(taken([*command], screen, screen.feed))


@pytest.mark.parametrize(
    "command", [["sh", "-c", "echo no; exit 3"], ["/there/is/none"], ["true"]], ids=lambda c: c[-1]
)
def test_a_command_that_fails_or_shows_nothing_has_no_film(command: list[str]) -> None:
    with pytest.raises(SystemExit, match="ended with"):
        recorded(*command)


def test_the_terminal_has_its_size_when_the_command_starts() -> None:
    from release.record import film

    shown = film(recorded("stty", "size"), Screen.columns)
    assert f">{Screen.lines} {Screen.columns}</text>" in shown


def test_the_time_goes_on_after_the_screen_was_cleared() -> None:
    times = [
        at_s
        for at_s, _ in recorded("sh", "-c", "printf a; sleep 1; printf '\\f'; sleep 1; printf b")
    ]
    assert len(times) == 3
    assert times == sorted(set(times))


@pytest.mark.parametrize(
    ("cells", "colour", "expected"),
    [
        (["a", "{y}", "b"], "default", ("25.3", "#c9d1d9", "a{y}b")),
        (["\u4e2d", "", "x"], "red", ("25.3", "#ff7b72", "\u4e2dx")),
        (["<"], "brightred", ("8.4", "#ff7b72", "&lt;")),
    ],
)
def test_a_line_is_drawn_as_the_cells_are(
    cells: list[str], colour: str, expected: tuple[str, ...]
) -> None:
    from release.record import Picture, _line, film

    screen = Screen()
    screen.show(*cells, colour=colour)
    drawn = film([Picture(0.0, (_line(screen, 0),))], screen.columns)
    [found] = re.findall(r'textLength="(.+?)" fill="(.+?)" y="25">(.+?)</text>', drawn)
    assert found == expected
