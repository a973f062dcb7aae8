"""Topics as a LazyFrame of polars. Needs polars and pyarrow."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from tandem_kafka.config import sealed
from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.runtime import new_lock
from tandem_kafka.tables.batches import Form, Range, opened
from tandem_kafka.types import ARROW_COLUMNS, ArrowDecoder

if TYPE_CHECKING:
    from tandem_kafka.tables.span import Where

_EXIT_S: Final = 10.0


class _Frames(Iterator[pl.DataFrame]):
    """The frames of one query.

    polars takes them in a thread of its own, and one more than a limit on rows needs. The process
    would abort if that thread still ran Python code when the interpreter ends.
    """

    def __init__(self, frames: Iterator[pl.DataFrame]) -> None:
        self._frames = frames
        self._taking = new_lock()
        # Invariant: older than the finalizer of the reader, which `frames` opens when it begins.
        # At exit, the consumer is closed first, which ends its poll().
        weakref.finalize(self, self._taking.acquire, timeout=_EXIT_S)

    def __next__(self) -> pl.DataFrame:
        """Return the next frame.

        Raises:
            StopIteration: The range is read, or has as many rows as the query asked for.
            KafkaError: The next records cannot be read.
        """
        with self._taking:
            return next(self._frames)


def scan(
    *topics: str | re.Pattern[str],
    start: Where = "earliest",
    columns: Sequence[str] | None = None,
    key: ArrowDecoder | None = None,
    value: ArrowDecoder | None = None,
    **options: Any,
) -> pl.LazyFrame:
    """Return a range of topics as a LazyFrame, which reads it each time that it is collected.

    Columns that the query does not use are not built, and a limit on rows before any filter ends
    the read.

    Args:
        *topics: As for `tandem_kafka.read()`.
        start: As for `read()`.
        columns: As for `read()`: those that a query can use.
        key: Decodes keys, by a schema that is known before.
        value: Decodes values, by a schema that is known before.
        **options: Further arguments of `read()`, also `end`, and options of the consumer.

    Raises:
        InvalidArgumentError: As for `read()`, or a decoder infers its schema.
        KafkaError: As for `read()`.
    """
    options = sealed(options)
    form = Form(columns, key, value)
    decoders = {name: each for name, each in (("key", key), ("value", value)) if each is not None}
    for name, decoder in decoders.items():
        if pa.types.is_null(decoder.decode(pa.array([], pa.binary()))[0].type):
            msg = f"{name}: scan() needs a decoder that knows its schema, such as Json(schema)"
            raise InvalidArgumentError(msg)
    asked = Range(topics, start, options.pop("end", "now"), options.pop("partitions", None))
    progress = options.pop("progress", None)
    # An empty range tells the columns, and errors in the arguments.
    schema, nothing = opened(asked, form, options, empty=True)
    nothing.close()
    # Fields of a flattened column may have other names of ARROW_COLUMNS.
    known = ARROW_COLUMNS if columns is None else columns

    def batches(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,  # noqa: ARG001 - a hint
    ) -> Iterator[pl.DataFrame]:
        wanted = schema.names if with_columns is None else with_columns
        plain = [name for name in wanted if name in known and name not in decoders]
        # Those that drop records or raise errors do so whatever the query uses.
        needed = len(plain) < len(wanted) or any(
            each.errors != "null" for each in decoders.values()
        )
        form = Form(plain, key, value) if needed else Form(plain, None, None)
        left = n_rows
        # Not in the finalizer alone: Ctrl-C while polars runs is raised by the next Python code.
        with closing(opened(asked, form, options, progress)[1]) as read:
            for batch in read:
                frame = pl.DataFrame(batch.select(wanted))
                if left is not None:  # a limit that comes before the predicate
                    frame = frame.head(left)
                    left -= len(frame)
                yield frame if predicate is None else frame.filter(predicate)
                if left == 0:
                    return

    def source(*query: Any) -> Iterator[pl.DataFrame]:
        return _Frames(batches(*query))

    types = pl.DataFrame(schema.empty_table()).schema
    return register_io_source(source, schema=types, explain_name="KAFKA")
