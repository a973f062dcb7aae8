"""Prints records to stdout in the form that the flags choose."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from tandem_kafka.cli.output import coloured

if TYPE_CHECKING:
    from tandem_kafka.cli.records.formats import Formatter
    from tandem_kafka.types import ConsumerRecord

    Record: TypeAlias = ConsumerRecord[Any, Any]


_FLAGS: Final = (
    click.option(
        "-f", "--format", "text", metavar="FORMAT",
        help=r"%k key, %v or %s value, %h headers, %t topic, %p partition, %o offset, "
        r"%T timestamp, %D the same as a date, %K %S sizes, \n, \t.",
    ),
    click.option("-J", "--json", "as_json", is_flag=True, help="Print JSON lines."),
    click.option("--hex", "hexadecimal", is_flag=True, help="Print a dump in hexadecimal."),
)  # fmt: skip


class Printer:
    """Writes bytes to stdout, and flushes after each batch.

    Attributes:
        formatter: The form of a record.
        chosen: Whether a flag has chosen the form.
    """

    def __init__(self, formatter: Formatter, *, chosen: bool) -> None:
        self.formatter = formatter
        self.chosen = chosen

    def print(self, records: Iterable[Record]) -> int:
        """Print records; returns how many.

        Raises:
            BrokenPipeError: Nothing reads stdout any more.
        """
        count = 0
        stream = sys.stdout.buffer
        for record in records:
            stream.write(self.formatter(record))
            count += 1
        stream.flush()
        return count


def printed(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of forms; the function gets them as `printer`."""

    @functools.wraps(command)
    def with_printer(text: str | None, as_json: bool, hexadecimal: bool, **given: Any) -> Any:
        from tandem_kafka.cli.records.formats import chosen

        flagged = text is not None or as_json or hexadecimal
        formatter = chosen(text, json=as_json, hexadecimal=hexadecimal, colours=coloured())
        return command(printer=Printer(formatter, chosen=flagged), **given)

    for flag in reversed(_FLAGS):
        with_printer = flag(with_printer)
    return with_printer
