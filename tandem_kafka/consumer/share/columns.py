"""Record batches of a share group: with delivery counts, and acknowledged by their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from tandem_kafka.consumer.reading.arrow_form import ArrowForm
from tandem_kafka.consumer.share.handing import Given
from tandem_kafka.errors import (
    ArgumentTypeError,
    IllegalStateError,
    InvalidArgumentError,
    KafkaError,
    RecordLockLostError,
)
from tandem_kafka.records import Undecodable
from tandem_kafka.state.locked_records import LockedRecords
from tandem_kafka.state.locks import (
    AcknowledgeType,
    LockedRun,
)
from tandem_kafka.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

#: The column that only share groups have.
DELIVERY_COUNT: Final = "delivery_count"
#: Topic, partition, offset, and delivery count if it is known; each may be null.
_Row = tuple[Any, Any, Any, Any]
_PLACE: Final = ("topic", "partition", "offset")


class Columns:
    """Makes record batches.

    Args:
        form: What they contain.
        implicit: Whether the application accepts a batch by asking for the next one.

    Raises:
        InvalidArgumentError: A column does not exist, or a decoder drops records that the
            application must acknowledge.
        ArgumentTypeError: A decoder is none.
        ImportError: pyarrow is not installed.
    """

    def __init__(self, form: ArrowForm, *, implicit: bool) -> None:
        self._decoding = form.decoding(DELIVERY_COUNT)
        for name, decoder in (("key", form.key), ("value", form.value)):
            if not implicit and decoder is not None and decoder.errors == "drop":
                msg = (
                    f'{name}: errors="drop" leaves out records, which could not be acknowledged '
                    'with acknowledgement="explicit"; use errors="null", and reject them'
                )
                raise InvalidArgumentError(msg)

    def batch(self, given: Sequence[Given]) -> tuple[pa.RecordBatch, Undecodable | None]:
        """Return the records as `arrow_form.Build` does."""
        import pyarrow as pa  # noqa: PLC0415 - an optional dependency

        counts = [
            pa.repeat(pa.scalar(chunk.run.delivery_count, pa.int16()), stop - start)
            for chunk, start, stop in given
        ]
        field = pa.field(DELIVERY_COUNT, pa.int16(), nullable=False)
        column = pa.concat_arrays([pa.array([], pa.int16()), *counts])
        records = [chunk.made(start, stop) for chunk, start, stop in given]
        return self._decoding.batch(records, {DELIVERY_COUNT: (field, column)})


def first_of(given: Sequence[Given], count: int) -> list[Given]:
    """Return the first records."""
    found: list[Given] = []
    for chunk, start, stop in given:
        if count > 0:
            found.append((chunk, start, min(stop, start + count)))
        count -= stop - start
    return found


def acknowledge_rows(records: LockedRecords, batch: Any, how: AcknowledgeType) -> None:
    """Acknowledge each row of a record batch or table by its topic, partition and offset.

    Raises:
        ArgumentTypeError: It is neither.
        InvalidArgumentError: One of these columns is missing, there twice, or of another type.
        RecordLockLostError: The locks of some rows have ended. All others are acknowledged.
        IllegalStateError: Some rows have been acknowledged before. All others are acknowledged.
    """
    failed: list[KafkaError] = []
    places = _places(batch)
    runs = _runs_of(records, places)
    for topic, partition, offset, count in places:
        found = runs.get(TopicPartition(topic, partition), {}).get(offset)
        if found is None or count not in (None, found.delivery_count):
            msg = (
                f"the record at offset {offset} of {topic}-{partition} is not locked here: its "
                "lock has ended, or it has been acknowledged before"
            )
            failed.append(RecordLockLostError(msg))
            continue
        try:
            records.acknowledge(found, offset, how)
        except (RecordLockLostError, IllegalStateError) as error:
            failed.append(error)
    if failed:
        lost = [each for each in failed if isinstance(each, RecordLockLostError)]
        first = (lost or failed)[0]
        raise type(first)(f"{len(failed)} of {len(batch)} records, for example: {first}")


def _runs_of(
    records: LockedRecords, places: Sequence[_Row]
) -> dict[TopicPartition, dict[int, LockedRun]]:
    """Return the runs of these records, by their offsets; perhaps also those of others."""
    offsets: dict[TopicPartition, list[int]] = {}
    for topic, partition, offset, _ in places:
        if offset is not None:
            offsets.setdefault(TopicPartition(topic, partition), []).append(offset)
    bounds = {tp: (min(each), max(each)) for tp, each in offsets.items()}
    found: dict[TopicPartition, dict[int, LockedRun]] = {tp: {} for tp in bounds}
    for run in records.handed():  # Invariant: the newest lock of an offset is the last.
        tp = run.partition.tp
        lowest, highest = bounds.get(tp, (0, -1))
        if run.first <= highest and lowest <= run.last:
            offered = range(max(run.first, lowest), min(run.given, highest + 1))
            found[tp].update(dict.fromkeys(offered, run))
    return found


def _places(batch: Any) -> list[_Row]:
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency

    if not isinstance(batch, pa.RecordBatch | pa.Table):
        msg = f"acknowledge() needs a record batch or table of pyarrow, got {type(batch).__name__}"
        raise ArgumentTypeError(msg)
    schema = batch.schema
    for name in _PLACE:
        count = schema.names.count(name)
        if count != 1:
            found = "twice" if count else "missing"
            msg = (
                "acknowledge() needs the columns topic, partition and offset; "
                f"{name} is {found} in {', '.join(schema.names)}"
            )
            raise InvalidArgumentError(msg)
        # Invariant: brokers get integers. Others equal the offset of a record, as 12.0 does.
        kind = schema.field(name).type
        if name != "topic" and not pa.types.is_integer(kind):
            raise InvalidArgumentError(f"acknowledge() needs integers in {name}, got {kind}")
    columns = [batch.column(name).to_pylist() for name in _PLACE]
    # Invariant: a lock that has ended is not taken for the one after it, as `record.accept()` does
    # not.
    counted = schema.names.count(DELIVERY_COUNT) == 1
    columns.append(batch.column(DELIVERY_COUNT).to_pylist() if counted else [None] * len(batch))
    return list(zip(*columns, strict=True))
