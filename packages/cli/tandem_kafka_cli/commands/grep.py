"""`tandem-kafka grep`: records that match a regular expression, with grep's exit codes."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from tandem_kafka_cli import flags
from tandem_kafka_cli.failures import USAGE
from tandem_kafka_cli.records.decoding import decoded
from tandem_kafka_cli.records.filters import Filters, compiled, filtered
from tandem_kafka_cli.records.printing import Printer, printed
from tandem_kafka_cli.records.selection import Selection, selected

if TYPE_CHECKING:
    from collections.abc import Callable

    from tandem_kafka.types import ConsumerRecord
    from tandem_kafka_cli.connection import Connection

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
@decoded
@flags.connected
def command(
    connection: Connection,
    selection: Selection,
    printer: Printer,
    filters: Filters,
    **given: Any,
) -> int:
    """Find the records of a topic whose value matches PATTERN.

    Exits with 0 if a record matched, with 1 if none did, and with 2 after an error.
    """
    click.get_current_context().meta["failed"] = USAGE
    matches = _condition(given)
    with connection.reader(uncommitted=selection.uncommitted) as consumer:
        from tandem_kafka.tables.reader import SpanReader

        span = selection.span(connection, consumer)
        reader = SpanReader(consumer, span, connection.environment.clock)
        found = 0
        for batch in reader.batches():
            left = None if given["most"] is None else given["most"] - found
            chosen = islice(filter(matches, filters.chosen(batch)), left)
            found += sum(1 for _ in chosen) if given["count"] else printer.print(chosen)
            if found == given["most"]:
                break
    if given["count"]:
        click.echo(found)
    return _MATCHED if found else _NOTHING_MATCHED


def _condition(given: dict[str, Any]) -> Callable[[Record], bool]:
    pattern = compiled(
        given["pattern"], "PATTERN", ignore_case=given["ignore_case"], fixed=given["fixed"]
    )
    inverted: bool = given["invert"]

    def found(content: bytes | None) -> bool:
        return content is not None and pattern.search(content) is not None

    if given["in_key"]:
        return lambda record: found(record.key) is not inverted
    if given["in_headers"]:
        return lambda record: any(found(each) for _, each in record.headers) is not inverted
    return lambda record: found(record.value) is not inverted
