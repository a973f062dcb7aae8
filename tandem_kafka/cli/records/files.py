"""Writes a range of records to JSON lines, Parquet or Arrow IPC."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Self

from tandem_kafka.cli.failures import CommandError
from tandem_kafka.cli.records.filters import Filters
from tandem_kafka.cli.records.formats import Formatter
from tandem_kafka.cli.records.printing import write
from tandem_kafka.reads.reader import SpanReader

if TYPE_CHECKING:
    import pyarrow as pa


FORMS: Final = ("jsonl", "parquet", "arrow")
_SUFFIXES: Final = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
}
#: Rows of a Parquet file that are compressed together.
_ROW_GROUP: Final = 100_000


def form_of(given: str | None, output: str) -> str | None:
    """Return the form of a file: as given, or by its name; None for text on stdout.

    Raises:
        CommandError: The name has no suffix that tells.
    """
    if given is not None or output == "-":
        return given
    form = _SUFFIXES.get(Path(output).suffix.lower())
    if form is None:
        raise CommandError(
            f"--output {output}: choose a form with --to {'|'.join(FORMS)}", usage=True
        )
    return form


@contextmanager
def _opened(output: str) -> Iterator[IO[bytes]]:
    """Open a file that has its name only when it is complete; `-` is stdout."""
    if output == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    partial = Path(f"{output}.partial")
    try:
        with partial.open("wb") as stream:
            yield stream
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)


def write_lines(
    reader: SpanReader,
    output: str,
    filters: Filters,
    formatter: Formatter,
    advance: Callable[[], object],
) -> int:
    """Write records in a textual form; returns how many.

    Args:
        reader: The records.
        output: A file, or `-`.
        filters: Records that are left out.
        formatter: The form.
        advance: Called after each batch.
    """
    count = 0
    with _opened(output) as stream:
        for batch in reader.batches():
            count += write(filters.chosen(batch), formatter, stream)
            advance()
    return count


def write_columns(
    reader: SpanReader, output: str, form: str, filters: Filters, advance: Callable[[], object]
) -> int:
    """Write records as Parquet or Arrow IPC; returns how many. The arguments are as above.

    Raises:
        CommandError: pyarrow is not installed, or binary data would go to a terminal.
    """
    _require_arrow()
    if output == "-" and sys.stdout.isatty():
        raise CommandError(f"{form} is binary: name a file with --output", usage=True)
    count = 0
    with _opened(output) as stream, _Columns(stream, form) as columns:
        for batch in reader.arrow_batches():
            chosen = batch.filter(_mask(batch, filters)) if filters else batch
            columns.write(chosen)
            count += chosen.num_rows
            advance()
    return count


def _require_arrow() -> None:
    if find_spec("pyarrow") is None:
        raise CommandError("Parquet and Arrow need pyarrow: pip install 'tandem-kafka[arrow]'")


def _mask(batch: pa.RecordBatch, filters: Filters) -> pa.Array:
    import pyarrow as pa

    columns = [batch[name].to_pylist() for name in ("key", "value", "headers")]
    return pa.array(
        [
            filters.accept(key, value, [(each["key"], each["value"]) for each in headers or ()])
            for key, value, headers in zip(*columns, strict=True)
        ],
        pa.bool_(),
    )


class _Columns:
    """A writer of record batches; also without a batch, the file is complete."""

    def __init__(self, stream: IO[bytes], form: str) -> None:
        self._stream = stream
        self._form = form
        self._writer: Any = None
        self._waiting: list[pa.RecordBatch] = []

    def __enter__(self) -> Self:
        return self

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch, for Parquet once enough rows wait for a row group."""
        self._waiting.append(_plain(batch))
        if self._form == "arrow" or sum(each.num_rows for each in self._waiting) >= _ROW_GROUP:
            self._write_waiting()

    def _write_waiting(self) -> None:
        import pyarrow as pa

        table = pa.Table.from_batches(self._waiting, _schema())
        self._waiting.clear()
        if self._writer is None:
            self._writer = self._opened()
        self._writer.write_table(table.combine_chunks())

    def _opened(self) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._form == "parquet":
            return pq.ParquetWriter(self._stream, _schema(), compression="zstd")
        return pa.ipc.new_stream(self._stream, _schema())

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None and (self._waiting or self._writer is None):
            self._write_waiting()
        if self._writer is not None and kind is None:
            self._writer.close()


def _schema() -> pa.Schema:
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("ms", "UTC")),
            ("timestamp_type", pa.int8()),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", pa.list_(header)),
            ("leader_epoch", pa.int32()),
        ]
    )


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with the topic as text, which every reader of Parquet and Arrow knows."""
    return batch.cast(_schema())
