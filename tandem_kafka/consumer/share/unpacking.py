"""Makes records of what brokers have locked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from tandem_kafka.config import Config
from tandem_kafka.consumer.reading.deserializers import Deserializers
from tandem_kafka.consumer.share.record import ShareRecord
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
    derive_records,
    open_reader,
)
from tandem_kafka.state.deliveries import counted_on
from tandem_kafka.state.locks import (
    Acknowledgement,
    AcknowledgeType,
    LockedPartition,
    LockedRange,
    LockedRun,
)

#: How many records are decoded at once.
_RECORDS: Final = 10_000
#: What becomes of records that cannot be read. A share group has no `seek()`.
_ADVICE: Final = {
    AcknowledgeType.RELEASE: "it is released and delivered again; poll() continues after it",
    AcknowledgeType.REJECT: "it is rejected, as this was not the first time; poll() continues",
}
#: Behind all offsets.
_UNKNOWN: Final = 2**63 - 1
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

    def __init__(self, run: LockedRun, records: TakenRecords) -> None:
        self.run = run
        self.records = records
        self.index = 0

    def made(self, start: int, stop: int) -> Sequence[ShareRecord[Any, Any]]:
        """Return records for the application."""
        return derive_records(self.records, start, stop, ShareRecord, self.run)


class Rest(NamedTuple):
    """Locked records from an offset on, to be unpacked once those before them are handed out.

    Attributes:
        locked: What they were locked with.
        begin: The offset.
        source: An offset to read from, and the batches; None for all.
    """

    locked: LockedPartition
    begin: int
    source: tuple[int, memoryview] | None

    @property
    def ranges(self) -> list[tuple[int, int, int]]:
        """The ranges that are left: first offset, last offset and delivery count."""
        begin = self.begin
        ranges = self.locked.ranges
        return [(max(first, begin), last, count) for first, last, count in ranges if last >= begin]

    def is_usable(self, now_ms: int) -> bool:
        """Tell whether the application may still be given them."""
        return self.locked.is_usable(now_ms)


class Unreadable(NamedTuple):
    """A record or batch that the application does not get, but an error. See `Unpacker.unpack`.

    Attributes:
        locked: What it was locked with.
        offset: Its first offset.
        error: The error.
    """

    locked: LockedPartition
    offset: int
    error: _Damage | RecordDeserializationError

    @property
    def is_given_back(self) -> bool:
        """Whether this consumer has given its offsets back; else they were withdrawn before."""
        return self.locked.given > self.offset


Unpacked = Chunk | Acknowledgement | Unreadable | Rest
_Damage = CorruptRecordError | UnsupportedCodecError


class _Source:
    """Reads the batches for one range after the other, and each batch once.

    Attributes:
        behind: After an error, the first offset behind the batch that cannot be read.
    """

    def __init__(self, rest: Rest, options: ReaderOptions, most_bytes: int) -> None:
        self._locked = rest.locked
        self._options = options
        self._most_bytes = most_bytes
        self._data = rest.locked.data
        self._reader: RecordReader | None = None
        #: Records that were read for the last range, and lie behind it.
        self._rest: TakenRecords | None = None
        #: A range from this offset on is behind what was read before.
        self._begin = _UNKNOWN
        self.behind = self._taken_bytes = 0
        if rest.source is not None:
            self._open(*rest.source)
            self._begin = rest.begin

    def begin_at(self, offset: int) -> None:
        """Go on for a range; begin again if it may have records of a batch that was left out."""
        # Invariant: otherwise it continues. A reader that begins between two batches, where
        # compaction has removed others, takes them for damaged.
        if offset < self._begin:
            self._open(*_batches_around(self._locked.data, offset))
            self._begin = offset

    def _open(self, offset: int, data: memoryview) -> None:
        tp, self._data, self._rest = self._locked.tp, data, None
        topic_id = self._locked.place[0]
        fetched = FetchedPartition(tp.topic, topic_id, tp.partition, 0, records=data)
        self._reader = open_reader(tp.topic, tp.partition, offset, fetched, self._options)

    def take(self, first: int, last: int) -> TakenRecords | _Damage | None:
        """Return the next records of a range, the error of a batch, or None at its end."""
        reader, rest = self._reader, self._rest
        assert reader is not None  # noqa: S101 - `begin_at`
        if rest is None:
            if reader.exhausted or reader.next_offset > last:
                return None
            offset, before = reader.next_offset, reader.taken_bytes
            try:
                rest = reader.take(_RECORDS, self._most_bytes)
            except (CorruptRecordError, UnsupportedCodecError) as error:
                self._leave_out(error.next_offset, offset)
                return error
            self._taken_bytes += reader.taken_bytes - before
        stop = rest.before(last + 1)
        self._rest = rest.part(stop, len(rest)) if stop < len(rest) else None
        start = rest.before(first)
        return rest.part(start, stop) if start < stop or self._rest is None else None

    def _leave_out(self, end: int | None, offset: int) -> None:
        data = _batches_from(self._data, offset + 1 if end is None else end)
        # Invariant: the reader has less with each error, so it comes to an end.
        if len(data) == len(self._data):
            data = data[next((stop for _, stop in _batch_starts(data)), len(data)) :]
        # Invariant: up to the next batch. The end is in the header, which may be what is damaged.
        whole = len(data) >= _HEADER.size  # else the last batch is cut short
        self.behind = _HEADER.unpack_from(data)[0] if whole else _UNKNOWN
        self._open(self.behind, data)
        # Invariant: a range before this may have records of that batch, and none behind it has.
        self._begin = self.behind

    @property
    def is_enough(self) -> bool:
        """Whether the rest is to be left for later."""
        return self._taken_bytes >= self._most_bytes

    def rest(self, offset: int) -> Rest:
        """Return what is left from an offset on."""
        return Rest(self._locked, offset, _batches_around(self._data, offset))

    @property
    def is_cut_short(self) -> bool:
        """Whether the last batch is."""
        end = max((stop for _, stop in _batch_starts(self._data)), default=0)
        return end != len(self._data)


class Unpacker:
    """Decodes and deserializes on the application thread."""

    def __init__(self, config: Config, deserializers: Deserializers) -> None:
        self._options = ReaderOptions.of(config)
        self._most_bytes = config.fetch_buffer_max_bytes
        self._deserializers = deserializers

    def unpack(
        self, given: LockedPartition | Rest, earlier: Sequence[LockedRange] = ()
    ) -> Iterator[Unpacked]:
        """Yield the locked records, and an error in place of each one that cannot be read.

        A small response may decompress to gigabytes. What comes after `fetch_buffer_max_bytes` is
        therefore left for another call: the last item is a `Rest`.

        Before an error, and in place of offsets without a record, yield their acknowledgement. A
        record that cannot be deserialized is released. So is a damaged batch, as it may be intact
        the next time; one that was delivered before is rejected.

        Args:
            given: What is locked.
            earlier: What the application was given before; see `LockedRecords.earlier`.
        """
        rest = given if isinstance(given, Rest) else Rest(given, 0, None)
        locked, source = rest.locked, _Source(rest, self._options, self._most_bytes)
        for first, last, count in rest.ranges:
            after = first
            source.begin_at(first)
            # Invariant: from `after` on. Damaged headers can lead back to batches that were read.
            while (taken := source.take(after, last)) is not None:
                if isinstance(taken, KafkaError):
                    behind = min(source.behind, last + 1)
                    if behind > after:  # else none of its records is locked
                        yield from _given_up(locked, (after, behind - 1), count, taken)
                        after = behind
                    continue
                for part in _in_rows(taken):
                    begin, _ = part.place_of(0)
                    yield from _given_back(locked, after, begin - 1, AcknowledgeType.GAP)
                    after = begin + len(part)
                    yield from self._counted(part, locked, count, earlier)
                if len(taken) and source.is_enough:
                    yield source.rest(after)
                    return
            if after <= last and source.is_cut_short:
                place, problem = (*locked.tp, after), "the last batch is cut short"
                cut = CorruptRecordError.at(*place, problem, None)
                yield from _given_up(locked, (after, last), count, cut)
            else:
                yield from _given_back(locked, after, last, AcknowledgeType.GAP)

    def _counted(
        self,
        row: TakenRecords,
        locked: LockedPartition,
        count: int,
        earlier: Sequence[LockedRange],
    ) -> Iterator[Unpacked]:
        begin, _ = row.place_of(0)
        for first, last, above in counted_on((begin, begin + len(row) - 1, count), earlier):
            same = row.part(first - begin, last + 1 - begin)
            yield from self._deserialized(same, locked, above)

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
                yield Chunk(LockedRun(locked, first, first + len(records) - 1, count), records)
            if error is None:
                return
            yield from _given_back(locked, error.offset, error.offset, AcknowledgeType.RELEASE)
            error.advice = _ADVICE[AcknowledgeType.RELEASE]
            yield Unreadable(locked, error.offset, error)
            taken = taken.part(len(records) + 1, len(taken))


def _given_up(
    locked: LockedPartition,
    offsets: tuple[int, int],
    count: int,
    error: _Damage,
) -> Iterator[Unpacked]:
    """Yield the acknowledgement of locked offsets that cannot be read, and the error."""
    how = AcknowledgeType.RELEASE if count == 1 else AcknowledgeType.REJECT
    error.offset, error.advice = offsets[0], _ADVICE[how]
    yield from _given_back(locked, *offsets, how)
    yield Unreadable(locked, offsets[0], error)


def _given_back(
    locked: LockedPartition, first: int, last: int, how: AcknowledgeType
) -> Iterator[Acknowledgement]:
    """Yield the acknowledgement of offsets that the application does not get, if there are any."""
    if first <= last:
        yield Acknowledgement(locked, first, last, how, None)


def _batch_starts(data: memoryview) -> Iterator[tuple[int, int]]:
    """Yield where each whole batch starts and ends."""
    start = 0
    while start + _HEADER.size <= len(data):
        _, length = _HEADER.unpack_from(data, start)
        stop = start + _HEADER.size + length
        if length <= 0 or stop > len(data):
            return
        yield start, stop
        start = stop


def _batches_from(data: memoryview, offset: int) -> memoryview:
    """Return the batches from one on that begins at an offset or behind it."""
    for start, _ in _batch_starts(data):
        if _HEADER.unpack_from(data, start)[0] >= offset:
            return data[start:]
    return data[:0]


def _batches_around(data: memoryview, offset: int) -> tuple[int, memoryview]:
    """Return where to read from: an offset, and the batches beginning with the one that has it."""
    begin, found = -1, 0
    for start, _ in _batch_starts(data):
        base, _ = _HEADER.unpack_from(data, start)
        if not begin < base <= offset:  # the field may be damaged
            break
        begin, found = base, start
    return (offset if begin < 0 else begin), data[found:]


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
