"""A bar on stderr: how much of a range has been read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tandem_kafka_cli.output import console

if TYPE_CHECKING:
    from tandem_kafka.tables.reader import SpanReader
    from tandem_kafka.tables.span import Span


@contextmanager
def progress(
    reader: SpanReader, span: Span, what: str = "", *, shown: bool = True
) -> Iterator[Callable[[], object]]:
    """Show a bar, if stderr is a terminal; the function that it yields advances it.

    Args:
        reader: Reads the range.
        span: The range.
        what: Stands before the bar.
        shown: False for no bar.
    """
    if not shown or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    begun = sum(span.first.values())
    name = [TextColumn("{task.description}", markup=False)] if what else []
    columns = (*name, BarColumn(30), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True)) as bar:
        task = bar.add_task(what, total=span.size)

        def advance() -> None:
            bar.update(task, completed=sum(reader.position.values()) - begun)

        yield advance
        bar.update(task, completed=span.size)
