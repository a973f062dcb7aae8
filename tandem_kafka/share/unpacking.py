"""Makes records of what brokers have locked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any, Final

from tandem_kafka.config import Config
from tandem_kafka.consumer.deserializers import Deserializers
from tandem_kafka.errors import (
    CorruptRecordError,
    KafkaError,
    RecordDeserializationError,
    UnsupportedCodecError,
)
from tandem_kafka.records import (
    FetchedPartition,
    ReaderOptions,
    RecordReader,
    TakenRecords,
    open_reader,
)
from tandem_kafka.shared.locked_records import (
    Acknowledgement,
    AcknowledgeType,
    LockedPartition,
    Run,
)
from tandem_kafka.types import ConsumerRecord

#: How many records are decoded at once.
_RECORDS: Final = 10_000
#: What becomes of records that cannot be read. A share group has no `seek()`.
_ADVICE: Final = {
    AcknowledgeType.RELEASE: "it is released and delivered again; poll() goes on behind it",
    AcknowledgeType.REJECT: "it is rejected, as this was not the first time; poll() goes on",
}
#: The base offset of a batch, and the number of bytes that follow.
_HEADER: Final = Struct(">qi")


class Chunk:
    """Records in a row, with their locks.

    Attributes:
        run: Their locks.
        records: The records.
        index: The first that is not settled. Writer: the reader.
    """

    __slots__ = ("index", "records", "run")

    def __init__(self, run: Run, records: Sequence[ConsumerRecord[Any, Any]]) -> None:
        self.run = run
        self.records = records
        self.index = 0


Unpacked = Chunk | Acknowledgement | KafkaError


class Unpacker:
    """Decodes and deserializes on the application thread."""

    def __init__(self, config: Config, deserializers: Deserializers) -> None:
        self._options = ReaderOptions.of(config)
        self._deserializers = deserializers

    def unpack(self, locked: LockedPartition) -> Iterator[Unpacked]:
        """Yield the locked records, and an error in place of each one that cannot be read.

        Before an error, and in place of offsets without a record, yield their acknowledgement. A
        record that cannot be deserialized is released. So is a damaged batch, as it may be intact
        the next time; one that was delivered before is rejected.
        """
        tp = locked.tp
        for first, last, count in locked.ranges:
            given_up = AcknowledgeType.RELEASE if count == 1 else AcknowledgeType.REJECT
            after, data = first, locked.data
            reader = self._reader(locked, after, data)
            while not reader.exhausted and reader.next_offset <= last:
                try:
                    taken = reader.take(_RECORDS)
                except (CorruptRecordError, UnsupportedCodecError) as error:
                    behind = last + 1 if error.next_offset is None else error.next_offset
                    if behind > after:  # else none of its records is locked
                        yield from _given_back(locked, after, min(last, behind - 1), given_up)
                        error.advice = _ADVICE[given_up]
                        yield error
                        after = behind
                    # Invariant: the reader has less with each error, so it comes to an end.
                    data = _batches_from(data, behind)
                    reader = self._reader(locked, after, data)
                    continue
                taken = taken.part(0, taken.before(last + 1))
                for part in _in_rows(taken):
                    begin, _ = part.place_of(0)
                    yield from _given_back(locked, after, begin - 1, AcknowledgeType.GAP)
                    after = begin + len(part)
                    yield from self._deserialized(part, locked, count)
            if after <= last and _batches_end(data) != len(data):
                problem = "the last batch is cut short"
                yield from _given_back(locked, after, last, given_up)
                cut = CorruptRecordError.at(tp.topic, tp.partition, after, problem, None)
                cut.advice = _ADVICE[given_up]
                yield cut
            else:
                yield from _given_back(locked, after, last, AcknowledgeType.GAP)

    def _reader(self, locked: LockedPartition, offset: int, data: bytes) -> RecordReader:
        tp = locked.tp
        fetched = FetchedPartition(tp.topic, locked.place[0], tp.partition, 0, records=data)
        return open_reader(tp.topic, tp.partition, offset, fetched, self._options)

    def _deserialized(
        self, taken: TakenRecords, locked: LockedPartition, count: int
    ) -> Iterator[Unpacked]:
        while len(taken):
            first, _ = taken.place_of(0)
            records: Any = taken
            error: RecordDeserializationError | None = None
            if self._deserializers.active:
                records, error = self._deserializers.apply(taken)
            if len(records):
                yield Chunk(Run(locked, first, first + len(records) - 1, count), records)
            if error is None:
                return
            yield from _given_back(locked, error.offset, error.offset, AcknowledgeType.RELEASE)
            error.advice = _ADVICE[AcknowledgeType.RELEASE]
            yield error
            taken = taken.part(len(records) + 1, len(taken))


def _given_back(
    locked: LockedPartition, first: int, last: int, how: AcknowledgeType
) -> Iterator[Acknowledgement]:
    """Yield the acknowledgement of offsets that the application does not get, if there are any."""
    if first <= last:
        yield Acknowledgement(locked, first, last, how, None)


def _batch_starts(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each whole batch starts and ends."""
    start = 0
    while start + _HEADER.size <= len(data):
        _, length = _HEADER.unpack_from(data, start)
        stop = start + _HEADER.size + length
        if length <= 0 or stop > len(data):
            return
        yield start, stop
        start = stop


def _batches_from(data: bytes, offset: int) -> bytes:
    """Return the batches from one on that begins at an offset or behind it."""
    for start, _ in _batch_starts(data):
        if _HEADER.unpack_from(data, start)[0] >= offset:
            return data[start:]
    return b""


def _batches_end(data: bytes) -> int:
    """Return where the last whole batch ends."""
    return max((stop for _, stop in _batch_starts(data)), default=0)


def _in_rows(taken: TakenRecords) -> Iterator[TakenRecords]:
    """Split records where offsets are missing."""
    start, count = 0, len(taken)
    while start < count:
        first, _ = taken.place_of(start)
        stop = count
        if taken.place_of(count - 1)[0] - first != count - 1 - start:
            # Invariant: offsets increase, so the rows end where an offset is too large.
            low, high = start, count - 1
            while low < high:
                middle = (low + high + 1) // 2
                if taken.place_of(middle)[0] - first == middle - start:
                    low = middle
                else:
                    high = middle - 1
            stop = low + 1
        yield taken.part(start, stop)
        start = stop
