"""Tables for people and JSON lines for programs; colours only on a terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

from tandem_kafka.foreign_text import replaced, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

#: Wide enough that a table that is read by a program is never wrapped.
_PIPE_WIDTH: Final = 100_000
#: Tables that are wider than the terminal by more than this factor are printed as blocks.
_FOLDED: Final = 1.5
#: Colours of members, in the order in which they are first seen.
_MEMBER_COLOURS: Final = ("cyan", "magenta", "yellow", "blue", "green")
#: Members whose colour is kept.
_MOST_COLOURED: Final = 1_000
#: The only column of text may be folded to this width, with the space beside it.
_NARROWEST: Final = 12


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        key: Its name in the rows, and in JSON.
        title: Its heading; the key with spaces by default.
        number: Whether it is aligned to the right.
        of_member: Whether it has the style of the row, which is the colour of a member.
    """

    key: str
    title: str = ""
    number: bool = False
    of_member: bool = False

    @property
    def heading(self) -> str:
        """The heading."""
        return visible((self.title or self.key.replace("_", " ")).upper(), keep="")


class Colours:
    """A colour for each member, the same as long as the command runs."""

    def __init__(self) -> None:
        self._chosen: dict[str, str] = {}
        self._next = cycle(_MEMBER_COLOURS)

    def of(self, name: str) -> str:
        """Return the colour of a member, as rich names it."""
        if name not in self._chosen:
            self._chosen[name] = next(self._next)
            if len(self._chosen) > _MOST_COLOURED:
                del self._chosen[next(iter(self._chosen))]
        return self._chosen[name]


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
    return json_text(row)


def json_text(content: object) -> str:
    r"""Return JSON on one line; what has no shape on a terminal is `\uNNNN`."""
    return json_safe(json.dumps(content, ensure_ascii=False, separators=(",", ":"), default=str))


def json_safe(text: str) -> str:
    r"""Return a line of JSON in which what has no shape on a terminal is `\uNNNN`."""
    return text if text.isprintable() else replaced(text, _json_escape)


def _json_escape(character: str) -> str:
    return json.dumps(character)[1:-1]


def table(columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> Table:
    """Return a table without lines; columns that no row has a value for are left out.

    The value `style` of a row is the style of the columns with `of_member`.
    """
    from rich.table import Table
    from rich.text import Text

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
        made.add_row(
            *(
                Text(_cell(row.get(column.key)), row.get("style", "") if column.of_member else "")
                for column in used
            )
        )
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


def _fits(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a table is readable: on a terminal, it is not much wider, or only text is folded."""
    if not on_terminal():
        return True
    widths = {
        column: max(len(column.heading), *(len(_cell(row.get(column.key))) for row in rows), 0) + 2
        for column in columns
        if not rows or any(row.get(column.key) is not None for row in rows)
    }
    width: int = console().width
    numbers = sum(size for column, size in widths.items() if column.number)
    texts = [size for column, size in widths.items() if not column.number]
    folded = numbers + sum(min(size, _NARROWEST) for size in texts)
    return sum(widths.values()) <= _FOLDED * width or (len(texts) == 1 and folded <= width)


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
        text = ",".join(map(str, value)) or "-"
    elif isinstance(value, (list, tuple, dict)):
        text = json.dumps(value, ensure_ascii=False, default=str)
    elif isinstance(value, int) and not isinstance(value, bool):
        text = f"{value:,}"
    else:
        text = str(value)
    return visible(text, keep="")
