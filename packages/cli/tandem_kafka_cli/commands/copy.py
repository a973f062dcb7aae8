"""`tandem-kafka copy`: records of one topic to another."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from tandem_kafka_cli import flags
from tandem_kafka_cli.environment import current
from tandem_kafka_cli.failures import CommandError
from tandem_kafka_cli.output import counted
from tandem_kafka_cli.records.filters import Filters, filtered
from tandem_kafka_cli.records.progress import progress
from tandem_kafka_cli.records.selection import Selection, ranged

if TYPE_CHECKING:
    from tandem_kafka_cli.connection import Connection
    from tandem_kafka_cli.records.copying import Copier


@click.command()
@click.argument("source")
@click.argument("destination")
@ranged
@click.option("-F", "--follow", is_flag=True, help="Go on with records that arrive, until Ctrl-C.")
@click.option(
    "--rate", type=click.IntRange(1), metavar="N", help="Copy at most N records a second."
)
@click.option(
    "-g", "--group", metavar="GROUP",
    help="Begin at the offsets of this group, and commit what is copied.",
)  # fmt: skip
@click.option("--to-brokers", metavar="HOST:PORT,...", help="DESTINATION is on this cluster.")
@click.option("--to-cluster", metavar="NAME", help="DESTINATION is on this named cluster.")
@click.option(
    "--compression", type=click.Choice(["gzip", "snappy", "lz4", "zstd"]), help="Of the copies."
)
@filtered
@flags.connected
def command(
    connection: Connection,
    source: str,
    destination: str,
    selection_of: Callable[[str], Selection],
    filters: Filters,
    **given: Any,
) -> None:
    """Copy the records of topic SOURCE to topic DESTINATION, which must exist.

    Keys, values, headers and timestamps stay. So do partitions, if both topics have as many;
    otherwise the key chooses the partition.

    Every copy is acknowledged by all replicas in sync before its offset is committed with -g.
    After an interruption, a copy with -g repeats the records since the last commit.
    """
    from tandem_kafka_cli.records.copying import Copier, Pace

    selection = selection_of(source)
    group_id = given["group"]
    _check(selection, group_id, given)
    target = _target(connection, given)
    if target is connection and source == destination:
        raise CommandError("SOURCE and DESTINATION are the same topic", usage=True)
    options = {} if group_id is None else {"group_id": group_id}
    count = _partitions_of(target, destination)
    with (
        connection.reader(uncommitted=selection.uncommitted, **options) as consumer,
        closing(target.producer(compression_type=given["compression"])) as producer,
    ):
        environment = connection.environment
        same = count == _partitions_of(connection, source)
        pace = Pace(environment.clock, environment.sleep_ms, given["rate"])
        copier = Copier((consumer, producer), destination, filters, pace, partitions=same)
        try:
            _copy(connection, copier, selection, follow=given["follow"], group=group_id is not None)
        except KeyboardInterrupt:
            _print_count(copier, destination)
            raise
        _print_count(copier, destination)


def _print_count(copier: Copier, destination: str) -> None:
    print(f"{counted(copier.copied, 'record')} copied to {destination}", file=sys.stderr)


def _check(selection: Selection, group_id: str | None, given: dict[str, Any]) -> None:
    if given["to_brokers"] and given["to_cluster"]:
        raise CommandError("choose one of --to-brokers and --to-cluster", usage=True)
    if given["follow"] and selection.until is not None:
        raise CommandError("choose one of --follow and --until", usage=True)
    if group_id is not None and selection.start is not None:
        raise CommandError(
            "choose one of -g and a start (-o, --from); `tandem-kafka offsets reset` moves a group",
            usage=True,
        )


def _target(connection: Connection, given: dict[str, Any]) -> Connection:
    """Return the connection of the destination."""
    from tandem_kafka_cli.connection import Connection as Made
    from tandem_kafka_cli.settings.layers import Flags

    if not given["to_brokers"] and not given["to_cluster"]:
        return connection
    flagged = Flags(
        brokers=given["to_brokers"], cluster=given["to_cluster"], config=connection.config
    )
    return Made(flagged, current())


def _partitions_of(connection: Connection, topic: str) -> int:
    from tandem_kafka_cli.connection import described_topic

    with connection.consumer() as consumer:
        return len(described_topic(consumer.cluster(), topic).partitions)


def _copy(
    connection: Connection, copier: Copier, selection: Selection, *, follow: bool, group: bool
) -> None:
    from tandem_kafka.tables.reader import SpanReader
    from tandem_kafka.tables.span import Span

    consumer = copier.consumer
    span = selection.span(connection, consumer)
    if group:
        begun = {tp: consumer.committed(tp) for tp in span.first}
        first = {tp: span.first[tp] if at is None else at for tp, at in begun.items()}
        span = Span(first, {tp: max(span.end[tp], first[tp]) for tp in first})
    reader = SpanReader(consumer, span, connection.environment.clock)
    with progress(reader, span) as advance:
        for batch in reader.batches():
            copier.copy(batch, commit=group)
            advance()
    if group:
        copier.commit(span.end)
    if follow:
        for records in reader.follow():
            copier.copy(records, commit=group)
