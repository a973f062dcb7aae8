"""`tandem-kafka sql`: queries over topics with DuckDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from tandem_kafka_cli import flags
from tandem_kafka_cli.failures import CommandError
from tandem_kafka_cli.output import Column, counted, show
from tandem_kafka_cli.records.decoding import decodes
from tandem_kafka_cli.records.progress import progress
from tandem_kafka_cli.records.selection import Selection, ranged

if TYPE_CHECKING:
    import pyarrow as pa

    from tandem_kafka_cli.connection import Connection
    from tandem_kafka_cli.records.decoded import Decoded


@click.command()
@click.argument("query")
@ranged
@decodes
@flags.JSON
@flags.connected
def command(
    connection: Connection,
    query: str,
    selection_of: Callable[[str], Selection],
    decoded_of: Callable[[], Decoded | None],
    as_json: bool,
) -> None:
    """Run QUERY, in which topics are tables: a name with a dash stands in double quotes.

    Columns: topic, partition, record_offset, timestamp, timestamp_type, leader_epoch, headers, key
    and value as text (NULL if they are not UTF-8), key_bytes and value_bytes. Everything in the
    range is read before the query runs; what does not fit into memory goes to temporary files.
    Example: SELECT key, count(*) FROM orders GROUP BY key

    With -s, value is what it contains, usually a struct, in all topics of the query:
    SELECT value.customer, sum(value.amount) FROM orders GROUP BY ALL. The fields are those of
    --schema, or else of the first record with Avro, and of the first 10,000 records with JSON.
    """
    for name in ("duckdb", "pyarrow"):
        if find_spec(name) is None:
            raise CommandError(f"sql needs {name}: pip install duckdb 'tandem-kafka[arrow]'")
    from tandem_kafka.tables.reader import SpanReader
    from tandem_kafka_cli.records.queries import Query

    with Query(query) as prepared:
        chosen = [(selection_of(topic), decoded_of()) for topic in prepared.tables]
        with connection.reader(uncommitted=chosen[0][0].uncommitted) as consumer:
            for each, decoded in chosen:
                span = each.span(connection, consumer)
                reader = SpanReader(consumer, span, connection.environment.clock)
                with progress(reader, span, each.topic) as advance:
                    prepared.load(each.topic, _noted(reader.arrow_batches(), advance), decoded)
        if prepared.unplaced:
            told = f"{counted(prepared.unplaced, 'record')}: timestamp out of bounds, shown as null"
            click.echo(told, err=True)
        names, rows = prepared.result()
        columns = [Column(name, number=kind in {int, float}) for name, kind in names.items()]
        show(columns, (_row(names, row) for row in rows), as_json=as_json)


def _noted(
    batches: Iterator[pa.RecordBatch], advance: Callable[[], object]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch
        advance()


def _row(names: dict[str, type], values: tuple[Any, ...]) -> dict[str, Any]:
    from tandem_kafka_cli.records.jsonlines import json_value

    return {name: json_value(value) for name, value in zip(names, values, strict=True)}
