"""Prints records to stdout in the form that the flags choose."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias

import click

from tandem_kafka_cli.output import coloured

if TYPE_CHECKING:
    from tandem_kafka.types import ConsumerRecord
    from tandem_kafka_cli.records.formats import Formatter

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


#: Records that are formatted together.
_AT_ONCE: Final = 500
#: Records with more bytes are formatted one by one, as their text takes memory several times.
_LARGE: Final = 1 << 20


class Printer:
    """Writes bytes to stdout, and flushes after each batch.

    Attributes:
        formatter: The form of records.
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
        stream = sys.stdout.buffer
        try:
            return write(records, self.formatter, stream)
        finally:
            stream.flush()


def write(records: Iterable[Record], formatter: Formatter, stream: IO[bytes]) -> int:
    """Write records; returns how many. Those before an error are written."""
    count = 0
    remaining = iter(records)
    while True:
        some: list[Record] = []
        try:
            some.extend(islice(remaining, _AT_ONCE))
        finally:
            _write(some, formatter, stream)
        if not some:
            return count
        count += len(some)


def _write(records: list[Record], formatter: Formatter, stream: IO[bytes]) -> None:
    if sum(each.serialized_value_size for each in records) > _LARGE:
        for each in records:
            stream.write(formatter((each,)))
    elif records:
        stream.write(formatter(records))


def printed(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of forms; the function gets them as `printer`."""

    @functools.wraps(command)
    def with_printer(text: str | None, as_json: bool, hexadecimal: bool, **given: Any) -> Any:
        from tandem_kafka_cli.records.formats import chosen

        flagged = text is not None or as_json or hexadecimal
        formatter = chosen(text, json=as_json, hexadecimal=hexadecimal, colours=coloured())
        return command(printer=Printer(formatter, chosen=flagged), **given)

    for flag in reversed(_FLAGS):
        with_printer = flag(with_printer)
    return with_printer
