"""`tandem-kafka tail`: the last records of a topic, and those that arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from tandem_kafka_cli import flags
from tandem_kafka_cli.failures import CommandError
from tandem_kafka_cli.records.decoding import decoded
from tandem_kafka_cli.records.filters import Filters, filtered
from tandem_kafka_cli.records.printing import Printer, printed
from tandem_kafka_cli.records.selection import Selection, selected

if TYPE_CHECKING:
    from tandem_kafka import KafkaConsumer
    from tandem_kafka.types import ConsumerRecord, TopicPartition
    from tandem_kafka_cli.connection import Connection

    Record: TypeAlias = ConsumerRecord[Any, Any]
    Show: TypeAlias = Callable[[Sequence[Record]], None]


_LINES: Final = 10


@click.command()
@selected
@click.option("-n", "--lines", type=click.IntRange(0), help="How many records; 10 by default.")
@click.option("-F", "--follow", is_flag=True, help="Go on with records that arrive, until Ctrl-C.")
@printed
@filtered
@decoded
@flags.connected
def command(
    connection: Connection,
    selection: Selection,
    lines: int | None,
    follow: bool,
    printer: Printer,
    filters: Filters,
) -> None:
    """Show the last records of a topic, in the order of their timestamps.

    With -o or --from, show all records from there on, as they are read. The filters choose among
    the records that would be shown.
    """
    if follow and selection.until is not None:
        raise CommandError("choose one of --follow and --until", usage=True)
    if lines is not None and (selection.start or selection.until):
        raise CommandError("choose one of -n and a range (-o, --from, --until)", usage=True)
    with connection.reader(uncommitted=selection.uncommitted) as consumer:

        def show(records: Sequence[Record]) -> None:
            printer.print(filters.chosen(records))

        if selection.start or selection.until:
            ends = _show_range(connection, consumer, selection, show)
        else:
            ends = _show_last(connection, consumer, selection, (lines, show))
        if follow:
            for batch in _arriving(connection, consumer, ends):
                show(batch)


def _show_range(
    connection: Connection, consumer: KafkaConsumer, selection: Selection, show: Show
) -> dict[TopicPartition, int]:
    """Show a range; returns where each partition ended."""
    from tandem_kafka.tables.reader import SpanReader

    span = selection.span(connection, consumer)
    for batch in SpanReader(consumer, span, connection.environment.clock).batches():
        show(batch)
    return {tp: max(first, span.end[tp]) for tp, first in span.first.items()}


def _show_last(
    connection: Connection,
    consumer: KafkaConsumer,
    selection: Selection,
    shown: tuple[int | None, Show],
) -> dict[TopicPartition, int]:
    """Show the last records; returns where each partition ended."""
    from tandem_kafka_cli.records.last import last_records

    lines, show = shown
    count = _LINES if lines is None else lines
    partitions = selection.partitions(consumer)
    records, ends = last_records(consumer, partitions, count, connection.environment.clock)
    show(records)
    return ends


def _arriving(
    connection: Connection, consumer: KafkaConsumer, ends: dict[TopicPartition, int]
) -> Iterator[list[Record]]:
    from tandem_kafka.tables.reader import SpanReader
    from tandem_kafka.tables.span import Span

    return SpanReader(consumer, Span(ends, ends), connection.environment.clock).follow()
