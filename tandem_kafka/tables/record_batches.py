"""`read()`: a range of topics as Arrow record batches."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tandem_kafka.config import sealed
from tandem_kafka.tables.progress import Progress

if TYPE_CHECKING:
    import pyarrow as pa

    from tandem_kafka.tables.span import Where
    from tandem_kafka.types import ArrowDecoder


def read(  # noqa: PLR0913 - each says what to read
    *topics: str | re.Pattern[str],
    start: Where = "earliest",
    end: Where = "now",
    partitions: Sequence[int] | None = None,
    columns: Sequence[str] | None = None,
    key: ArrowDecoder | None = None,
    value: ArrowDecoder | None = None,
    progress: Callable[[Progress], object] | None = None,
    **options: Any,
) -> pa.RecordBatchReader:
    """Read a range of topics once, as Arrow record batches of bounded size.

    The end is fixed when this is called: what arrives later is not read. It is exact with
    compacted topics, transactions and empty partitions. Joins no group and commits nothing.
    Requires pyarrow (``pip install tandem-kafka[arrow]``).

    Args:
        *topics: Names, and compiled regular expressions for whole names.
        start: Where to begin: ``"earliest"``; a time such as ``"-1d"`` (a day ago),
            ``"2026-05-01T12:00"`` (UTC), a datetime, or a timedelta before now; an offset, or -N
            for N before the end; offsets by partition; ``"committed"`` for the committed offsets
            of ``group_id``, and the earliest where there are none.
        end: Where to end, in the same forms, or ``"now"``. The record there is not read.
        partitions: The numbers of the partitions to read; all by default.
        columns: As for ``KafkaConsumer.poll_arrow()``; columns that are not named are not built.
        key: Decodes keys; see `tandem_kafka.tables`.
        value: Decodes values.
        progress: Called after each batch, and at the end.
        **options: Options of the consumer, such as ``bootstrap_servers``. ``isolation_level`` is
            ``"read_committed"`` by default.

    Returns:
        A reader for pyarrow, polars, DuckDB and pandas. Its first batch is read already. Its
        consumer is closed after the last one, or when nothing refers to the reader any more:
        pyarrow does not pass on `close()`.

    Raises:
        ImportError: pyarrow is not installed.
        InvalidArgumentError: A bound, a column or a partition does not exist.
        UnknownTopicOrPartitionError: A topic does not exist.
        RecordDeserializationError: A record cannot be decoded.
        OffsetOutOfRangeError: A topic was truncated or recreated during the read.
        KafkaTimeoutError: No record arrived for half a minute.
        KafkaError: As for ``poll()``.

    Example::

        reader = read("orders", start="-1d", value=Json(schema, flatten=True),
                      bootstrap_servers="localhost:9092")
        frame = polars.from_arrow(reader)
    """
    options = sealed(options)
    try:
        import pyarrow as pa
    except ImportError as error:
        msg = "read() needs pyarrow; run: pip install tandem-kafka[arrow]"
        raise ImportError(msg) from error
    from tandem_kafka.tables.batches import Form, Range, opened

    asked = Range(topics, start, end, partitions)
    schema, batches = opened(asked, Form(columns, key, value), options, progress)
    return pa.RecordBatchReader.from_batches(schema, batches)
