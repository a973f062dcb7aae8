"""`tandem-kafka grep`: records that match a regular expression, with grep's exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from tandem_kafka.cli import flags
from tandem_kafka.cli.failures import USAGE
from tandem_kafka.cli.records.filters import Filters, compiled, filtered
from tandem_kafka.cli.records.printing import Printer, printed
from tandem_kafka.cli.records.selection import Selection, selected

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from tandem_kafka.cli.connection import Connection
    from tandem_kafka.types import ConsumerRecord

    Record: TypeAlias = ConsumerRecord[Any, Any]


_MATCHED: Final = 0
_NOTHING_MATCHED: Final = 1


@click.command()
@click.argument("pattern")
@selected
@click.option("-k", "--in-key", is_flag=True, help="Search keys, not values.")
@click.option("--in-headers", is_flag=True, help="Search the values of headers.")
@click.option("-i", "--ignore-case", is_flag=True, help="Ignore upper and lower case.")
@click.option("--fixed", is_flag=True, help="PATTERN is text, not a regular expression.")
@click.option("-v", "--invert", is_flag=True, help="Records that do not match.")
@click.option("-c", "--count", is_flag=True, help="Print only how many.")
@click.option("-m", "--max", "most", type=click.IntRange(1), help="Stop after N matches.")
@printed
@filtered
@flags.connected
def command(
    connection: Connection, selection: Selection, printer: Printer, filters: Filters, **given: Any
) -> int:
    """Find the records of a topic whose value matches PATTERN.

    Exits with 0 if a record matched, with 1 if none did, and with 2 after an error.
    """
    click.get_current_context().meta["failed"] = USAGE
    matches = _condition(given)
    with connection.reader(uncommitted=selection.uncommitted) as consumer:
        from tandem_kafka.cli.records.reading import SpanReader

        span = selection.span(connection, consumer)
        reader = SpanReader(consumer, span, connection.environment.clock)
        found = 0
        for batch in reader.batches():
            left = None if given["most"] is None else given["most"] - found
            chosen = islice((each for each in batch if _fits(each, filters, matches)), left)
            found += sum(1 for _ in chosen) if given["count"] else printer.print(chosen)
            if found == given["most"]:
                break
    if given["count"]:
        click.echo(found)
    return _MATCHED if found else _NOTHING_MATCHED


def _fits(record: Record, filters: Filters, matches: Callable[[Record], bool]) -> bool:
    return matches(record) and filters.accept(record.key, record.value, record.headers)


def _condition(given: dict[str, Any]) -> Callable[[Record], bool]:
    pattern = compiled(
        given["pattern"], "PATTERN", ignore_case=given["ignore_case"], fixed=given["fixed"]
    )
    searched = _keys if given["in_key"] else _headers if given["in_headers"] else _values

    inverted: bool = given["invert"]

    def matches(record: Record) -> bool:
        return _any(pattern, searched(record)) is not inverted

    return matches


def _any(pattern: re.Pattern[bytes], contents: Iterator[bytes | None]) -> bool:
    return any(each is not None and pattern.search(each) for each in contents)


def _keys(record: Record) -> Iterator[bytes | None]:
    yield record.key


def _values(record: Record) -> Iterator[bytes | None]:
    yield record.value


def _headers(record: Record) -> Iterator[bytes | None]:
    return (content for _, content in record.headers)
