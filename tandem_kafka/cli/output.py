"""Tables for people and JSON lines for programs; colours only on a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = [
    "Column",
    "coloured",
    "console",
    "json_line",
    "on_terminal",
    "print_table",
    "show",
    "table",
]

#: Wide enough that a table that is read by a program is never wrapped.
_PIPE_WIDTH: Final = 100_000
#: Tables that are wider than the terminal by more than this factor are printed as blocks.
_FOLDED: Final = 1.5


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        key: Its name in the rows, and in JSON.
        title: Its heading; the key with spaces by default.
        number: Whether it is aligned to the right.
    """

    key: str
    title: str = ""
    number: bool = False

    @property
    def heading(self) -> str:
        """The heading."""
        return (self.title or self.key.replace("_", " ")).upper()


def on_terminal() -> bool:
    """Whether a person reads stdout."""
    return sys.stdout.isatty()


def coloured() -> bool:
    """Whether stdout may have colours (https://no-color.org)."""
    return on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def console(*, stderr: bool = False) -> Console:
    """Return a console for stdout or stderr."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(
        file=stream,
        width=None if stream.isatty() else _PIPE_WIDTH,
        highlight=False,
        emoji=False,
        markup=False,
        no_color=True if os.environ.get("NO_COLOR") else None,
        soft_wrap=False,
    )


def counted(number: int, noun: str) -> str:
    """Return a number with a noun: `1 record`, `2,000 records`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def json_line(row: Mapping[str, Any]) -> str:
    """Return a row as one line of JSON."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"), default=str)


def table(columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> Table:
    """Return a table without lines; columns that no row has a value for are left out."""
    from rich.table import Table

    listed = list(rows)
    used = [
        column
        for column in columns
        if not listed or any(row.get(column.key) is not None for row in listed)
    ]
    made = Table(box=None, pad_edge=False, padding=(0, 1))
    for column in used:
        made.add_column(
            column.heading,
            justify="right" if column.number else "left",
            overflow="fold",
            no_wrap=column.number,
        )
    for row in listed:
        made.add_row(*(_cell(row.get(column.key)) for column in used))
    return made


def show(columns: Sequence[Column], rows: Iterable[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print rows as a table or as JSON lines."""
    if not as_json:
        listed = list(rows)
        if _fits(columns, listed):
            print_table(table(columns, listed))
        else:
            _print_records(columns, listed)
        return
    for row in rows:
        print(json_line(row))


def _fits(columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a table is readable: on a terminal, it is not much wider."""
    if not on_terminal():
        return True
    widths = [
        max(len(column.heading), *(len(_cell(row.get(column.key))) for row in rows), 0)
        for column in columns
    ]
    width: int = console().width
    return sum(widths) + 2 * len(widths) <= _FOLDED * width


def _print_records(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> None:
    """Print each row as a block of lines, one a column."""
    margin = max(len(column.heading) for column in columns)
    for number, row in enumerate(rows):
        if number:
            print()
        for column in columns:
            print(f"{column.heading:{margin}}  {_cell(row.get(column.key))}")


def print_table(made: Table) -> None:
    """Print a table; without spaces at the ends of lines, unless it is on a terminal."""
    screen = console()
    if on_terminal():
        screen.print(made)
        return
    with screen.capture() as captured:
        screen.print(made)
    for line in captured.get().splitlines():
        print(line.rstrip())


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, (list, tuple)) and all(isinstance(each, (int, str)) for each in value):
        return ",".join(map(str, value)) or "-"
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value, ensure_ascii=False, default=str)
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    # A name from a cluster must not control the terminal.
    return text if text.isprintable() else text.encode("unicode_escape").decode()
