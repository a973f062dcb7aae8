"""The record batches of a bounded read. Needs pyarrow."""

from __future__ import annotations

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python

import inspect
import re
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final, NamedTuple

import pyarrow as pa

from tandem_kafka.config import sealed
from tandem_kafka.config.external import check_decoder
from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.errors import (
    ArgumentTypeError,
    ForkedConsumerError,
    IllegalStateError,
    InvalidArgumentError,
    UnknownTopicOrPartitionError,
)
from tandem_kafka.runtime import MonotonicClock, new_lock
from tandem_kafka.tables.progress import Progress
from tandem_kafka.tables.reader import SpanReader
from tandem_kafka.tables.span import Bounds, Span, Where
from tandem_kafka.types import ArrowDecoder, DecodeErrors, TopicPartition

#: What a batch needs to be cut at the end of the range.
_PLACE: Final = ("topic", "partition", "offset")
#: Batches of so many bytes wait for the type of what is decoded.
_UNTYPED_BYTES: Final = 64 << 20
_CLOSE_MS: Final = 2_000
_PACKAGE: Final = "tandem_kafka."


class _Nested:
    """A decoder whose column is flattened later."""

    flatten = False

    def __init__(self, decoder: ArrowDecoder) -> None:
        self.errors: DecodeErrors = decoder.errors
        self.reads_schema_header: bool = getattr(decoder, "reads_schema_header", False)
        self.decode: Callable[..., tuple[pa.Array, Sequence[tuple[int, str]]]] = decoder.decode


class Form:
    """The columns of a read.

    Args:
        columns: As for `poll_arrow()`.
        key: Decodes keys.
        value: Decodes values.

    Attributes:
        key: Decodes keys, and flattens nothing.
        value: Decodes values, and flattens nothing.

    Raises:
        ArgumentTypeError: `key` or `value` is no decoder.
    """

    def __init__(
        self, columns: Sequence[str] | None, key: ArrowDecoder | None, value: ArrowDecoder | None
    ) -> None:
        self._columns = columns
        given = {name: each for name, each in (("key", key), ("value", value)) if each is not None}
        for name, decoder in given.items():
            check_decoder(decoder, name)
        self._flattened = {name for name, each in given.items() if each.flatten}
        self._decoded = [*given]
        self.key = None if key is None else _Nested(key)
        self.value = None if value is None else _Nested(value)

    @property
    def columns(self) -> Sequence[str] | None:
        """The columns to ask for."""
        if self._columns is None or isinstance(self._columns, str):
            return self._columns  # poll_arrow() rejects a string
        return [*self._columns, *(name for name in _PLACE if name not in self._columns)]

    def typed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Hold batches back until the decoders know their types: all must have the same schema.

        Not without an end: no record may ever have a key.

        Raises:
            InvalidArgumentError: A later record tells a type.
        """
        held: deque[pa.RecordBatch] = deque()
        size = 0
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            untyped = any(pa.types.is_null(batch[name].type) for name in self._decoded)
            if not untyped or size >= _UNTYPED_BYTES:
                break
        schema = held[-1].schema if held else None
        while held:
            yield _of_schema(held.popleft(), schema)
        for batch in batches:
            yield _of_schema(batch, schema)

    def projected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns that the user gets.

        Raises:
            InvalidArgumentError: A field of a flattened column has the name of another column.
        """
        names = list(batch.schema.names)
        if self._columns is not None:
            wanted = {*self._columns, *self._decoded, "error"}
            names = [name for name in names if name in wanted]
        fields: list[pa.Field] = []
        arrays: list[pa.Array] = []
        for name in names:
            column = batch.column(name)
            if name in self._flattened and pa.types.is_struct(column.type):
                fields += [field.with_nullable(True) for field in column.type]
                arrays += column.flatten()
            elif name not in self._flattened or not pa.types.is_null(column.type):
                fields.append(batch.schema.field(name))
                arrays.append(column)
        taken = [field.name for field in fields]
        for name in taken:
            if taken.count(name) > 1:
                msg = (
                    f"the field {name!r} has the name of another column: leave that out of "
                    "columns, or do not flatten"
                )
                raise InvalidArgumentError(msg)
        if not fields:
            return batch.select([])  # unlike a new batch, it knows how many rows it has
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _of_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema == schema:
        return batch
    for column, field in zip(batch.columns, schema, strict=True):
        if pa.types.is_null(field.type) and not pa.types.is_null(column.type):
            msg = (
                f"{field.name}: its type is not known, as the first {_UNTYPED_BYTES >> 20} MiB of "
                "the range have none: give its decoder a schema, or do not decode it"
            )
            raise InvalidArgumentError(msg)
    columns = [
        pa.nulls(len(column), field.type) if column.type != field.type else column
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class Range(NamedTuple):
    """What to read, by the arguments of `read()`."""

    topics: Sequence[str | re.Pattern[str]]
    start: Where
    end: Where
    partitions: Sequence[int] | None


class Batches(Iterator[pa.RecordBatch]):
    """The batches of a range. The consumer is closed after the last one, or after an error.

    Threads may take them in turn.
    """

    def __init__(
        self, consumer: KafkaConsumer, form: Form, progress: Callable[[Progress], object] | None
    ) -> None:
        self._consumer = consumer
        #: Also of a read that is given up, and at the end of the program. Invariant: nothing that
        #: this object has refers to it, so that it ends with the last reference from outside.
        self._close = weakref.finalize(self, _close, consumer)
        self._form = form
        self._progress = progress
        self._batches: Iterator[pa.RecordBatch] = iter(())
        self._lock = new_lock()
        #: A text: the frames of an exception may have the reader that pyarrow made of this object,
        #: and the garbage collector does not see what pyarrow's reader refers to.
        self._failure = ""

    def open(self, asked: Range, *, empty: bool) -> pa.Schema:
        """Fix the range, and read the first batch.

        Args:
            asked: The range.
            empty: Check the range, and read nothing of it.

        Returns:
            The schema of all batches.
        """
        clock = MonotonicClock()
        form = self._form
        partitions = partitions_of(self._consumer, asked.topics, asked.partitions)
        bounds = Bounds(self._consumer, partitions, clock.wall_ms(), _warn)
        span = bounds.span(asked.start, asked.end)
        if empty:
            span = Span(span.first, span.first)
        batches = _read(SpanReader(self._consumer, span, clock), span, form, self._progress)
        first = next(batches, None)
        if first is not None:
            self._batches = chain([first], batches)
            return first.schema
        self._consumer.assign([])  # a wrong record beyond the end would be raised
        last = self._consumer.poll_arrow(0, columns=form.columns, key=form.key, value=form.value)
        return form.projected(last.slice(0, 0)).schema

    def __next__(self) -> pa.RecordBatch:
        """Return the next batch.

        Raises:
            StopIteration: The range is read.
            KafkaError: The next records cannot be read.
            IllegalStateError: The read has failed before.
        """
        with self._lock:
            if self._failure:
                # Without it, the rest of a range would look read.
                raise IllegalStateError(
                    "this read has failed, and cannot be continued; call read() again: "
                    f"{self._failure}"
                )
            try:
                return next(self._batches)
            except StopIteration:
                self.close()
                raise
            except BaseException as error:
                self._failure = f"{type(error).__name__}: {error}"
                self.close()
                raise

    def close(self) -> None:
        """Close the consumer; batches are no longer read."""
        self._batches = iter(())
        self._close()


def opened(
    asked: Range,
    form: Form,
    options: Mapping[str, Any],
    progress: Callable[[Progress], object] | None = None,
    *,
    empty: bool = False,
) -> tuple[pa.Schema, Batches]:
    """Return the batches of a range, and their schema.

    Args:
        asked: The range.
        form: The columns.
        options: Options of the consumer.
        progress: Called after each batch, and at the end.
        empty: Check the range, and read nothing of it.

    Raises:
        KafkaError: As for `read()`.
    """
    options = sealed(options)
    # The range says where to read: a position that is gone must not be replaced.
    fixed = {"enable_auto_commit": False, "auto_offset_reset": "none"}
    consumer = KafkaConsumer(**{"isolation_level": "read_committed", **options, **fixed})
    batches = Batches(consumer, form, progress)
    try:
        return batches.open(asked, empty=empty), batches
    except BaseException:
        batches.close()
        raise


def _close(consumer: KafkaConsumer) -> None:
    with suppress(ForkedConsumerError):  # a fork has references too
        consumer.close(timeout_ms=_CLOSE_MS)


def _read(
    reader: SpanReader,
    span: Span,
    form: Form,
    progress: Callable[[Progress], object] | None,
) -> Iterator[pa.RecordBatch]:
    records, size, share = 0, 0, 0.0
    batches = reader.arrow_batches(form.columns, key=form.key, value=form.value)
    for batch in form.typed(batches):
        made = form.projected(batch)
        records, size = records + made.num_rows, size + made.nbytes
        if progress is not None:
            at = reader.position
            read = sum(max(0, min(at[tp], span.end[tp]) - span.first[tp]) for tp in at)
            share = read / span.size
            progress(Progress(records, size, share))
        yield made
    # What the range ends with may be no record: markers of transactions, compacted offsets.
    if progress is not None and share < 1:
        progress(Progress(records, size, 1.0))


def partitions_of(
    consumer: KafkaConsumer, topics: Sequence[str | re.Pattern[str]], numbers: Sequence[int] | None
) -> list[TopicPartition]:
    """Return the partitions to read, in order.

    Raises:
        ArgumentTypeError: `numbers` is no collection.
        InvalidArgumentError: No topic is named, or a topic lacks a partition that is named.
        UnknownTopicOrPartitionError: A topic does not exist.
    """
    if not topics:
        msg = "no topic is named: write read('orders', ...)"
        raise InvalidArgumentError(msg)
    for each in topics:
        # A pattern of bytes would match no name.
        if not isinstance(getattr(each, "pattern", each), str):
            msg = f"topics are names and compiled regular expressions, got {each!r}"
            raise InvalidArgumentError(msg)
    if numbers is not None and not isinstance(numbers, Iterable):
        msg = f"partitions must be a collection of numbers such as [0], got {numbers!r}"
        raise ArgumentTypeError(msg)
    names = {each for each in topics if isinstance(each, str)}
    patterns = [each for each in topics if not isinstance(each, str)]
    found = consumer.cluster(topics=None if patterns else names).topics
    missing = sorted(names - {*found})
    if missing:
        msg = (
            f"the topic {missing[0]!r} does not exist, or this user may not describe it; check the "
            "name"
        )
        raise UnknownTopicOrPartitionError(msg)
    names |= {name for name in found if any(each.fullmatch(name) for each in patterns)}
    for name in sorted(names):
        lacking = sorted({*(numbers or ())} - {*found[name].partitions})
        if lacking:
            msg = f"the topic {name!r} has no partition {lacking[0]}"
            raise InvalidArgumentError(msg)
    return [
        TopicPartition(name, number)
        for name in sorted(names)
        for number in sorted(found[name].partitions if numbers is None else {*numbers})
    ]


def _warn(line: str) -> None:
    """Warn at the line that called this package."""
    level, frame = 1, inspect.currentframe()
    while frame and frame.f_globals["__name__"].startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(line, stacklevel=level)
