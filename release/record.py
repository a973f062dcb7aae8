"""Records a scene in a real terminal as an animated SVG: `python -m release.record demo|lag`.

It runs the scene in a pseudo-terminal, lets pyte keep the screen, and takes two pictures a
second. The SVG shows them like a film. `pip install --group recording` has pyte. If the scene
fails, nothing is written.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

PER_SECOND: Final = 2
#: How long the last picture stays.
REST_S: Final = 5.0
LINE, CHARACTER, MARGIN = 18, 8.43, 12
BACKGROUND, TEXT = "#0d1117", "#c9d1d9"
COLOURS: Final = {
    "default": TEXT,
    "black": "#6e7681",
    "red": "#ff7b72",
    "green": "#3fb950",
    "brown": "#d29922",
    "blue": "#58a6ff",
    "magenta": "#bc8cff",
    "cyan": "#39c5cf",
    "white": "#f0f6fc",
}
#: Stands for the height of a line. No cell of a screen has it.
_Y: Final = "\0"


class Scene(NamedTuple):
    """A module to run, and the size of its terminal."""

    module: str
    columns: int
    rows: int


#: By the names of the files.
SCENES: Final = {
    "demo": Scene("tandem_kafka_cli.demo", 112, 30),
    "lag": Scene("release.lagging", 80, 9),
}


class Picture(NamedTuple):
    """The lines of the screen as SVG, and when it was taken."""

    at_s: float
    lines: tuple[str, ...]


def main() -> None:
    """Write `docs/_static/<name>.svg`."""
    import pyte  # noqa: PLC0415 - the tests do without it

    (name,) = sys.argv[1:]
    module, columns, rows = SCENES[name]
    screen = pyte.Screen(columns, rows)
    command = [sys.executable, "-m", module]
    pictures = list(taken(command, screen, pyte.ByteStream(screen).feed))
    path = Path(__file__).parents[1] / "docs" / "_static" / f"{name}.svg"
    path.write_text(film(pictures, columns), encoding="utf-8")
    print(f"{len(pictures)} pictures, {path.stat().st_size // 1024} KiB in {path}")


def taken(command: list[str], screen: Any, feed: Callable[[bytes], object]) -> Iterator[Picture]:
    """Run a command until its end; yield each picture that differs from the one before.

    Args:
        command: The command.
        screen: A screen of pyte.
        feed: Draws output of the command on the screen.

    Raises:
        SystemExit: The command failed, or showed nothing.
    """
    child, terminal = pty.fork()
    if not child:
        _become(command, screen)
    begin, running = 0.0, True
    last = ("",) * screen.lines
    while running:
        due = time.monotonic() + 1 / PER_SECOND
        while running and (left := due - time.monotonic()) > 0:
            if select.select([terminal], [], [], left)[0]:
                running = bool(data := _read(terminal))
                feed(data)
        lines = tuple(_line(screen, number) for number in range(screen.lines))
        if lines != last:
            begin = begin or time.monotonic()  # the film begins when something is shown
            yield Picture(time.monotonic() - begin, lines)
        last = lines
    os.close(terminal)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status or not begin:
        raise SystemExit(f"{command} ended with {status}" + (" and showed nothing" * (not begin)))


def _become(command: list[str], screen: Any) -> NoReturn:
    """Run the command in this process, which never returns to the caller."""
    try:
        size = struct.pack("HHHH", screen.lines, screen.columns, 0, 0)
        fcntl.ioctl(0, termios.TIOCSWINSZ, size)
        os.environ["TERM"] = "xterm-256color"
        os.execvp(command[0], command)  # noqa: S606 - no shell
    finally:
        os._exit(127)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # Linux: the command has ended
        return b""


def _line(screen: Any, number: int) -> str:
    """Return a line of the screen as text elements, one for each style."""
    cells = [screen.buffer[number][column] for column in range(screen.columns)]
    parts, column = [], 0
    for (colour, bold), group in groupby(cells, key=lambda cell: (cell.fg, cell.bold)):
        shown = [cell.data for cell in group]  # after a wide character, an empty one
        end = column + len(shown)
        while shown and shown[-1].isspace():
            shown.pop()
        if shown:
            fill = COLOURS.get(colour.removeprefix("bright")) or f"#{colour}"
            weight = ' font-weight="700"' if bold else ""
            x = MARGIN + column * CHARACTER
            parts.append(
                f'<text x="{x:.1f}" textLength="{len(shown) * CHARACTER:.1f}" fill="{fill}"'
                f'{weight} y="{_Y}">{escape("".join(shown))}</text>'
            )
        column = end
    return "".join(parts)


def film(pictures: list[Picture], columns: int) -> str:
    """Return an SVG that shows the pictures one after the other, again and again."""
    height = len(pictures[0].lines) * LINE + 2 * MARGIN
    width = round(columns * CHARACTER + 2 * MARGIN)
    whole = pictures[-1].at_s + REST_S
    steps = (
        f"{100 * picture.at_s / whole:.2f}%{{transform:translateY(-{number * height}px)}}"
        for number, picture in enumerate(pictures)
    )
    frames = (
        line.replace(_Y, str(number * height + MARGIN + (row + 1) * LINE - 5))
        for number, picture in enumerate(pictures)
        for row, line in enumerate(picture.lines)
    )
    return "".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" ',
            f'viewBox="0 0 {width} {height}" font-family="monospace" font-size="14">',
            f"<style>text{{white-space:pre}}.film{{animation:run {whole:.1f}s step-end infinite}}",
            "@keyframes run{",
            *steps,
            f'}}</style><rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
            '<g class="film">',
            *frames,
            "</g></svg>\n",
        ]
    )


if __name__ == "__main__":
    main()
