"""Writes a range of records to JSON lines, Parquet or Arrow IPC."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Self

from tandem_kafka.tables.reader import SpanReader
from tandem_kafka_cli.failures import CommandError
from tandem_kafka_cli.records.filters import Filters
from tandem_kafka_cli.records.formats import Formatter
from tandem_kafka_cli.records.printing import write

if TYPE_CHECKING:
    import pyarrow as pa

    from tandem_kafka.tables.storage import Storage
    from tandem_kafka_cli.records.decoded import Decoded


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
#: Batches of so many bytes wait for the type of what is decoded.
_UNTYPED_BYTES: Final = 64 << 20


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
    """Open a file that has its name only when it is complete; `-` is stdout.

    A pipe or a device, such as /dev/stdout, is written to. A link stays one.
    """
    if output == "-":
        try:
            yield sys.stdout.buffer
        finally:
            sys.stdout.buffer.flush()
        return
    path = Path(output)
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:
            yield stream
        return
    path = path.resolve()
    partial = path.with_name(f"{path.name}.partial")
    try:
        with partial.open("wb") as stream:
            yield stream
        partial.replace(path)
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
    decoded = filters.decoded
    stored = _stored(form)
    with _opened(output) as stream, _Columns(stream, form, decoded) as columns:
        for batch, found in _decoded(reader, decoded, stored):
            chosen = _with(batch, found)
            if filters:
                chosen = chosen.filter(_mask(batch, found, filters))
            columns.write(chosen)
            count += chosen.num_rows
            advance()
    return count


def _decoded(
    reader: SpanReader, decoded: Decoded | None, stored: Storage | None
) -> Iterator[tuple[pa.RecordBatch, dict[str, pa.Array]]]:
    batches = reader.arrow_batches()
    if decoded is None:
        return ((batch, {}) for batch in batches)
    return decoded.batches(batches, stored)


def _stored(form: str) -> Storage | None:
    """Return what a file has of decoded columns: Arrow has a place for everything."""
    from tandem_kafka.tables.storage import storage

    return storage("Parquet") if form == "parquet" else None


def _with(batch: pa.RecordBatch, decoded: dict[str, pa.Array]) -> pa.RecordBatch:
    for name, column in decoded.items():
        batch = batch.set_column(batch.schema.get_field_index(name), name, column)
    return batch


def _require_arrow() -> None:
    if find_spec("pyarrow") is None:
        raise CommandError("Parquet and Arrow need pyarrow: pip install 'tandem-kafka[arrow]'")


def _mask(batch: pa.RecordBatch, decoded: dict[str, pa.Array], filters: Filters) -> pa.Array:
    import pyarrow as pa

    columns = [
        filters.decoded.texts(batch, decoded, name)
        if filters.decoded is not None
        else batch[name].to_pylist()
        for name in ("key", "value")
    ]
    columns.append(batch["headers"].to_pylist())
    return pa.array(
        [
            filters.accept(key, value, [(each["key"], each["value"]) for each in headers or ()])
            for key, value, headers in zip(*columns, strict=True)
        ],
        pa.bool_(),
    )


class _Columns:
    """A writer of record batches; also without a batch, the file is complete."""

    def __init__(self, stream: IO[bytes], form: str, decoded: Decoded | None) -> None:
        self._stream = stream
        self._form = form
        self._decoded = decoded
        self._schema: pa.Schema | None = None
        self._writer: Any = None
        self._waiting: list[pa.RecordBatch] = []

    def __enter__(self) -> Self:
        return self

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch, for Parquet once enough rows wait for a row group.

        The first batches also wait until a record tells the type of what is decoded.
        """
        self._waiting.append(batch)
        if self._schema is None and self._lacks_types():
            return
        if self._form == "arrow" or sum(each.num_rows for each in self._waiting) >= _ROW_GROUP:
            self._write_waiting()

    def _lacks_types(self) -> bool:
        """Whether to wait for them; not without an end, as no record may ever have a key."""
        import pyarrow as pa

        return (
            self._decoded is not None
            and any(map(pa.types.is_null, self._decoded.types(None).values()))
            and sum(each.nbytes for each in self._waiting) < _UNTYPED_BYTES
        )

    def _write_waiting(self) -> None:
        import pyarrow as pa

        if self._schema is None:
            self._schema = _schema(self._decoded, _stored(self._form))
            self._writer = self._opened(self._schema)
        waiting = [_plain(batch, self._schema) for batch in self._waiting]
        table = pa.Table.from_batches(waiting, self._schema)
        self._waiting.clear()
        self._writer.write_table(table.combine_chunks())

    def _opened(self, schema: pa.Schema) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._form == "parquet":
            return pq.ParquetWriter(self._stream, schema, compression="zstd")
        return pa.ipc.new_stream(self._stream, schema)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None and (self._waiting or self._writer is None):
            self._write_waiting()
        if self._writer is None:
            return
        if kind is None:
            self._writer.close()
        elif self._form == "parquet":
            self._writer.is_open = False  # else its end would complete a file that is closed


def _schema(decoded: Decoded | None, stored: Storage | None) -> pa.Schema:
    """Return the schema of a file."""
    import pyarrow as pa

    types = {} if decoded is None else decoded.types(stored)
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.schema(
        [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("ms", "UTC")),
            ("timestamp_type", pa.int8()),
            ("key", types.get("key", pa.binary())),
            ("value", types.get("value", pa.binary())),
            ("headers", pa.list_(header)),
            ("leader_epoch", pa.int32()),
        ]
    )


def _plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the topic as text, which every reader of Parquet and Arrow knows."""
    import pyarrow as pa

    for column, field in zip(batch.columns, schema, strict=True):
        if pa.types.is_null(field.type) and not pa.types.is_null(column.type):
            raise CommandError(
                f"the file has no type for a {field.name}, as the first records have none: decode "
                "one part only, with -s value= or -s key=, or begin later, with -o"
            )
    columns = [
        # pyarrow casts null to no struct.
        pa.nulls(len(column), field.type)
        if pa.types.is_null(column.type)
        else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
