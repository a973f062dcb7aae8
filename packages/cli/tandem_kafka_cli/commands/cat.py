"""`tandem-kafka cat`: a range of a topic to stdout or to a file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tandem_kafka_cli import flags
from tandem_kafka_cli.failures import CommandError
from tandem_kafka_cli.output import counted
from tandem_kafka_cli.records.decoding import decoded
from tandem_kafka_cli.records.filters import Filters, filtered
from tandem_kafka_cli.records.printing import Printer, printed
from tandem_kafka_cli.records.progress import progress
from tandem_kafka_cli.records.selection import Selection, selected

if TYPE_CHECKING:
    from tandem_kafka_cli.connection import Connection


@click.command()
@selected
@click.option("-O", "--output", default="-", metavar="FILE", help="Write here; stdout by default.")
@click.option("--to", type=click.Choice(["jsonl", "parquet", "arrow"]), help="The form of FILE.")
@printed
@filtered
@decoded
@flags.connected
def command(
    connection: Connection,
    selection: Selection,
    output: str,
    to: str | None,
    printer: Printer,
    filters: Filters,
) -> None:
    """Write the records of a topic, from its beginning to its present end, or a range.

    FILE has its name only once it is complete. `.jsonl`, `.parquet` and `.arrow` choose the form.
    With -s, the latter two have what values contain as columns of structs.
    """
    from tandem_kafka.tables.reader import SpanReader
    from tandem_kafka_cli.records import files
    from tandem_kafka_cli.records.jsonlines import as_json

    form = files.form_of(to, output)
    if form is not None and printer.chosen:
        raise CommandError("choose one of --to and a form for text (-f, --json, --hex)", usage=True)
    with connection.reader(uncommitted=selection.uncommitted) as consumer:
        span = selection.span(connection, consumer)
        reader = SpanReader(consumer, span, connection.environment.clock)
        # A bar among records on the same terminal would be no help.
        shown = output != "-" or not sys.stdout.isatty()
        with progress(reader, span, shown=shown) as advance:
            if form in {"parquet", "arrow"}:
                count = files.write_columns(reader, output, form, filters, advance)
            else:
                formatter = as_json if form == "jsonl" else printer.formatter
                count = files.write_lines(reader, output, filters, formatter, advance)
    if output != "-":
        print(f"{counted(count, 'record')} in {output}", file=sys.stderr)
